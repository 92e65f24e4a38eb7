"""Turn a loaded page into text worth reading. Pure and slow; run in a thread by contexts/rooms.py.

Imports trafilatura (10 MB, 0.3 s), so it is itself imported on first use.
"""

import trafilatura

from choir_browser.pages.port import RawPage

# A page this short has no clutter worth removing, and extraction could take it for clutter.
SHORT_CHARS = 2_000
# Less than this share of what is seen means that the extractor mistook the text for clutter.
LEAST_SHARE = 0.1


def readable(page: RawPage) -> str:
    """Return the main text of a page: as extracted, or all that is seen where extraction fails."""
    seen = page.text.strip()
    if len(seen) <= SHORT_CHARS:
        return seen
    main = trafilatura.extract(
        page.html, url=page.url, include_comments=False, include_tables=True, favor_recall=True
    )
    if main is None or len(main) < LEAST_SHARE * len(seen):
        return seen
    return main.strip()
