"""Which browsers show the page to somebody right now. In memory: pages report again by themselves."""

from collections.abc import Callable
from datetime import datetime, timedelta

from choir_common.clock import Clock
from choir_control.web.store import WebSession

LASTS = timedelta(seconds=90)
"""A page in use reports once a minute; one that is closed or hidden says so at once."""
MAX_PAGES = 32
"""Pages of one browser; the oldest report goes first."""
MAX_SESSIONS = 1000


class PresenceTracker:
    """The pages that are visible and in use, by browser session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pages: dict[str, dict[str, datetime]] = {}
        self._people: dict[str, str | None] = {}

    def report(self, session: WebSession, page: str, *, visible: bool) -> None:
        """Store what a page says of itself."""
        pages = self._pages.pop(session.web_session_id, {})
        pages.pop(page, None)
        if visible:
            pages[page] = self._clock.now()
            while len(pages) > MAX_PAGES:
                del pages[next(iter(pages))]
        self._people.pop(session.web_session_id, None)
        if pages:
            self._pages[session.web_session_id] = pages
            self._people[session.web_session_id] = session.person
        while len(self._pages) > MAX_SESSIONS:
            oldest = next(iter(self._pages))
            del self._pages[oldest], self._people[oldest]

    def is_somebody_here(self, is_recipient: Callable[[str | None], bool]) -> bool:
        """Return whether a recipient looks at a page now; the operator is None."""
        since = self._clock.now() - LASTS
        return any(
            is_recipient(self._people[session_id]) and any(at > since for at in pages.values())
            for session_id, pages in self._pages.items()
        )
