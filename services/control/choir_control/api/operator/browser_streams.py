"""Limit on the open streams of one browser session. In memory."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from choir_common.errors import RateLimited
from choir_control.web.store import WebSession

MAX_STREAMS = 16
"""A tab has one or two."""
RETRY_AFTER_S = 5.0


class BrowserStreams:
    """Open event streams by browser session: one session must not take all that the endpoint allows."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def check(self, session: WebSession | None) -> None:
        """Raise RateLimited if a session has too many open streams; other clients have no such limit."""
        if session is not None and self._open[session.web_session_id] >= MAX_STREAMS:
            raise RateLimited(
                f"This browser has {MAX_STREAMS} open streams, the maximum. Close a tab of Choir.",
                retry_after_s=RETRY_AFTER_S,
            )

    @contextlib.contextmanager
    def count(self, session: WebSession | None) -> Iterator[None]:
        """Count an open stream for the duration of the block."""
        if session is None:
            yield
            return
        name = session.web_session_id
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]
