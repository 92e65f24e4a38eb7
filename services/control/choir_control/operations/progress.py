"""Progress of a running operation, for any number of listeners. Created by `Operations`."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

from choir_common.wire.operations import OperationEvent

MOST_KEPT = 2_000
LONGEST = 2_000


class Progress:
    """Progress events of one operation; the oldest are dropped, so that work never waits for a listener."""

    def __init__(self, show: Callable[[str], None] = lambda _: None) -> None:
        """`show` updates the operation's card, if it has one."""
        self._draw = show
        self._events: deque[OperationEvent] = deque(maxlen=MOST_KEPT)
        self._news = asyncio.Event()
        self._seq = 0
        self.at = ""
        self.share: float | None = None
        self.over = False
        self.outcome = ""
        """Text for the user when the operation succeeds."""

    def step(self, text: str, share: float | None = None) -> None:
        """Report the next step, and the completed share (0 to 1) of the whole."""
        self.at = text
        if share is not None:
            self.share = min(1.0, max(0.0, share))
        self._say(OperationEvent(seq=self._next(), kind="step", text=text, share=self.share))

    def line(self, text: str) -> None:
        """Report a line of output."""
        self._say(OperationEvent(seq=self._next(), kind="line", text=text[:LONGEST]))

    def show(self, text: str) -> None:
        """Replace the text of the progress card."""
        self._draw(text)

    def end(self, text: str) -> None:
        """Report the end of the operation."""
        self._say(OperationEvent(seq=self._next(), kind="end", text=text, share=self.share))
        self.over = True
        self.wake()

    def wake(self) -> None:
        """Wake every listener."""
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self, after: int, quiet_s: float) -> AsyncGenerator[OperationEvent | None]:
        """Yield the events after `after` until the end, and None after `quiet_s` seconds without one."""
        while True:
            news = self._news
            for event in [event for event in self._events if event.seq > after]:
                after = event.seq
                yield event
            if self.over:
                return
            try:
                async with asyncio.timeout(quiet_s):
                    await news.wait()
            except TimeoutError:
                yield None

    async def until_over(self) -> None:
        """Wait for the end of the operation."""
        while not self.over:
            await self._news.wait()

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _say(self, event: OperationEvent) -> None:
        self._events.append(event)
        self.wake()
