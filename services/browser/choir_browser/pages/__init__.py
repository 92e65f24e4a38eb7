"""Chromium and the reading of pages; the only room that imports Playwright and trafilatura.

Owns finding, launching and driving Chromium, and turning a page into text. Never decides which agent
may do what, nor what may be reached (guard).

Ladder: chromium > tab > faults > locate | flags; words > port. Heavy modules (chromium, words) are
imported on first use.
"""
