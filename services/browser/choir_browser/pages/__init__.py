"""Chromium and its pages; the only package that imports Playwright.

Owns finding, launching and driving Chromium, rendering a page as Markdown with numbered elements
(page.js), and taking files out of it. Does not decide which agent may act, nor which addresses may
be reached (`egress`). Playwright is imported on first use.
"""
