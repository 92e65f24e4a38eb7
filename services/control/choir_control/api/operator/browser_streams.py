"""Limits on what one browser session has open: event streams, and files on their way. In memory."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager

from choir_common.errors import RateLimited
from choir_control.web.store import WebSession

MAX_STREAMS = 16
"""A tab has one or two."""
MAX_TRANSFERS = 8
"""A browser opens six connections to a host, and more behind a proxy with HTTP/2."""
RETRY_AFTER_S = 5.0
TRANSFER_RETRY_AFTER_S = 1.0


class BrowserStreams:
    """Open streams of one kind by browser session: one session must not take all that the endpoint allows."""

    def __init__(self, most: int, refusal: str, *, retry_after_s: float = RETRY_AFTER_S) -> None:
        self._most = most
        self._refusal = refusal
        self._retry_after_s = retry_after_s
        self._open: Counter[str] = Counter()

    def admit(self, session: WebSession | None) -> AbstractContextManager[None]:
        """Return a context manager that counts a stream; other clients than browsers have no limit.

        Raises RateLimited if the session has too many open ones.
        """
        if session is None:
            return contextlib.nullcontext()
        if self._open[session.web_session_id] >= self._most:
            raise RateLimited(self._refusal, retry_after_s=self._retry_after_s)
        return self._count(session.web_session_id)

    @contextlib.contextmanager
    def _count(self, name: str) -> Iterator[None]:
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class BrowserLimits:
    """The limits on what a browser session has open."""

    def __init__(self) -> None:
        self.streams = BrowserStreams(
            MAX_STREAMS,
            f"This browser has {MAX_STREAMS} open streams, the maximum. Close a tab of Choir.",
        )
        self.transfers = BrowserStreams(
            MAX_TRANSFERS,
            f"This browser sends or loads {MAX_TRANSFERS} files at the same time, the maximum. "
            "Try again when one of them is complete.",
            retry_after_s=TRANSFER_RETRY_AFTER_S,
        )
