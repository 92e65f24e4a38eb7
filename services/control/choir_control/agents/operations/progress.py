"""Progress of a running operation: events for listeners, and a card in a chat.

A card is one chat message that is edited in place. It is for display only and may be lost; the
outcome is also sent as a durable message.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Protocol

from choir_common.i18n import _
from choir_common.wire.activity import MAX_CARD, Card
from choir_common.wire.operations import OperationEvent

MAX_EVENTS = 2_000
MAX_LINE_CHARS = 2_000
MARK_RUNNING, MARK_SUCCEEDED, MARK_FAILED = "⏳", "✅", "⛔"
ELLIPSIS = "\n…\n"


class CardPublisher(Protocol):
    """Publisher of cards in conversations."""

    def show(self, dm: str, card: Card) -> None:
        """Show a card in a conversation (DM), in place of its earlier version."""

    def translate(self, dm: str, text: str) -> str:
        """Return a message in the language of a conversation."""
        ...


class ProgressCard:
    """Progress card of one operation in the conversation that started it."""

    def __init__(self, cards: CardPublisher, *, dm: str, operation_id: str, kind: str) -> None:
        self._cards = cards
        self._dm = dm
        self._operation_id = operation_id
        self._kind = kind
        self._text = ""

    def draw(self, text: str) -> None:
        """Show the current progress text."""
        self._text = text
        self._put(MARK_RUNNING, done=False)

    def end(self, *, well: bool) -> None:
        """Mark the last text as succeeded or failed."""
        self._put(MARK_SUCCEEDED if well else MARK_FAILED, done=True)

    def cut(self) -> None:
        """Show that choird ended before the operation did."""
        self._text = _("interrupted, start it again")
        self._put(MARK_FAILED, done=True)

    def _put(self, mark: str, *, done: bool) -> None:
        text = shorten_card(f"{mark} {self._kind}: {self._cards.translate(self._dm, self._text)}")
        self._cards.show(self._dm, Card(card_id=self._operation_id, text=text, done=done))


class OperationProgress:
    """Progress events of one operation; the oldest are dropped, so that work never waits for a listener."""

    def __init__(self, card: ProgressCard | None = None) -> None:
        self._card = card
        self._events: deque[OperationEvent] = deque(maxlen=MAX_EVENTS)
        self._news = asyncio.Event()
        self._seq = 0
        self.at = ""
        self.share: float | None = None
        self.over = False
        self.outcome = ""
        """Text for the user when the operation succeeds."""

    def progress(self, text: str, share: float | None = None) -> None:
        """Report the next step, and the completed share (0 to 1) of the whole."""
        self.at = text
        if share is not None:
            self.share = min(1.0, max(0.0, share))
        self._append(OperationEvent(seq=self._next(), kind="step", text=text, share=self.share))

    def output(self, text: str) -> None:
        """Report a line of output."""
        self._append(OperationEvent(seq=self._next(), kind="line", text=text[:MAX_LINE_CHARS]))

    def show(self, text: str) -> None:
        """Replace the text of the progress card, if there is one."""
        if self._card is not None:
            self._card.draw(text)

    def end(self, text: str) -> None:
        """Report the end of the operation."""
        self._append(OperationEvent(seq=self._next(), kind="end", text=text, share=self.share))
        self.over = True
        self.wake()

    def wake(self) -> None:
        """Wake every listener."""
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self, after: int, quiet_s: float) -> AsyncGenerator[OperationEvent | None]:
        """Yield the events after `after` until the end, and None after `quiet_s` seconds without
        one."""
        while True:
            changed = self._news
            for event in [event for event in self._events if event.seq > after]:
                after = event.seq
                yield event
            if self.over:
                return
            try:
                async with asyncio.timeout(quiet_s):
                    await changed.wait()
            except TimeoutError:
                yield None

    async def wait_finished(self) -> None:
        """Wait for the end of the operation."""
        while not self.over:
            await self._news.wait()

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _append(self, event: OperationEvent) -> None:
        self._events.append(event)
        self.wake()


def shorten_card(text: str) -> str:
    """Shorten a text to the size of a card: keep the first line and the end."""
    if len(text) <= MAX_CARD:
        return text
    head, _, rest = text.partition("\n")
    room = MAX_CARD - len(head) - len(ELLIPSIS)
    return f"{head}{ELLIPSIS}{rest[-room:]}" if room > 0 else text[:MAX_CARD]
