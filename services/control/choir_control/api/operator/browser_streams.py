"""Limits on what one browser session has open: event streams, and files on their way. In memory."""

import contextlib
from contextlib import AbstractContextManager

from choir_control.request_limits import OpenRequestLimit
from choir_control.web.store import WebSession

MAX_STREAMS = 16
"""A tab has one or two."""
MAX_TRANSFERS = 8
"""A browser opens six connections to a host, and more behind a proxy with HTTP/2."""
TRANSFER_RETRY_AFTER_S = 1.0


class BrowserStreams:
    """Open streams of one kind by browser session."""

    def __init__(self, limit: OpenRequestLimit) -> None:
        self._limit = limit

    def admit(self, session: WebSession | None) -> AbstractContextManager[None]:
        """Return a context manager that counts a stream; other clients than browsers have no limit.

        Raises RateLimited if the session has too many open ones.
        """
        if session is None:
            return contextlib.nullcontext()
        return self._limit.admit(session.web_session_id)


class BrowserLimits:
    """The limits on what a browser session has open."""

    def __init__(self) -> None:
        self.streams = BrowserStreams(
            OpenRequestLimit(
                MAX_STREAMS,
                f"This browser has {MAX_STREAMS} open streams, the maximum. Close a tab of Choir.",
            )
        )
        self.transfers = BrowserStreams(
            OpenRequestLimit(
                MAX_TRANSFERS,
                f"This browser sends or loads {MAX_TRANSFERS} files at the same time, the maximum. "
                "Try again when one of them is complete.",
                retry_after_s=TRANSFER_RETRY_AFTER_S,
            )
        )
