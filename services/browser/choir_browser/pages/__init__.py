"""Chromium and what is done in its pages; the only room that imports Playwright.

Owns finding, launching and driving Chromium, turning a page into markdown with numbers to press
(page.js), and taking files out of it. Never decides which agent may do what, nor what may be reached
(guard).

Ladder: chromium > driver | room > tabbook | hands | pictures | fetching | crashing > tab >
script > faults | filenames; owners; locate; port. Playwright is imported on first use.
"""
