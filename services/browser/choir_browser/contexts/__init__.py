"""One room per running agent, and the one engine they share.

Owns when Chromium starts and ends, which agent has which context, and how many pages load at once.
Never knows how a page is driven (pages) or what may be reached (guard).

Ladder: rooms > keeper > lazily.
"""
