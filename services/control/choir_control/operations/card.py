"""Progress card of an operation: one chat message that is edited in place. Created by `Operations`.

A card is for display only and may be lost. The outcome is also sent as a durable message.
"""

from collections.abc import Callable

from choir_common.wire.activity import MAX_CARD, Card

GOES_ON, WELL, BADLY = "⏳", "✅", "⛔"
LEFT_OUT = "\n…\n"
Show = Callable[[str, Card], None]
"""Shows a card in a conversation (DM)."""


class WorkCard:
    """Progress card of one operation in the conversation that started it."""

    def __init__(self, show: Show, dm: str, operation_id: str, kind: str) -> None:
        self._show = show
        self._dm = dm
        self._operation_id = operation_id
        self._kind = kind
        self._text = ""

    def draw(self, text: str) -> None:
        """Show the current progress text."""
        self._text = text
        self._put(GOES_ON, done=False)

    def end(self, *, well: bool) -> None:
        """Mark the last text as succeeded or failed."""
        self._put(WELL if well else BADLY, done=True)

    def cut(self) -> None:
        """Show that choird ended before the operation did."""
        self._text = "cut off, begin it again"
        self._put(BADLY, done=True)

    def _put(self, mark: str, *, done: bool) -> None:
        text = shortened(f"{mark} {self._kind}: {self._text}")
        self._show(self._dm, Card(card_id=self._operation_id, text=text, done=done))


def shortened(text: str) -> str:
    """Shorten a text to the size of a card: keep the first line and the end."""
    if len(text) <= MAX_CARD:
        return text
    head, _, rest = text.partition("\n")
    room = MAX_CARD - len(head) - len(LEFT_OUT)
    return f"{head}{LEFT_OUT}{rest[-room:]}" if room > 0 else text[:MAX_CARD]
