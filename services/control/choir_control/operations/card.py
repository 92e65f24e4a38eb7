"""Show how a work stands, as one message that is edited in place (spec 19.7). Made by `run`.

It is for the eyes only and may be lost; how the work ended is said in words as well, which are not.
"""

from collections.abc import Callable

from choir_common.wire.activity import MAX_CARD, Card

GOES_ON, WELL, BADLY = "⏳", "✅", "⛔"
LEFT_OUT = "\n…\n"
Show = Callable[[str, Card], None]
"""Show a card in a DM."""


class WorkCard:
    """The card of one work, in the conversation that began it."""

    def __init__(self, show: Show, dm: str, operation_id: str, kind: str) -> None:
        self._show = show
        self._dm = dm
        self._operation_id = operation_id
        self._kind = kind
        self._text = ""

    def draw(self, text: str) -> None:
        """Show how it stands."""
        self._text = text
        self._put(GOES_ON, done=False)

    def end(self, *, well: bool) -> None:
        """Show that it has ended, by what was shown last."""
        self._put(WELL if well else BADLY, done=True)

    def cut(self) -> None:
        """Show that choird ended in the middle of it."""
        self._text = "cut off, begin it again"
        self._put(BADLY, done=True)

    def _put(self, mark: str, *, done: bool) -> None:
        text = shortened(f"{mark} {self._kind}: {self._text}")
        self._show(self._dm, Card(card_id=self._operation_id, text=text, done=done))


def shortened(text: str) -> str:
    """Return a text that fits on a card: its head, and what came last."""
    if len(text) <= MAX_CARD:
        return text
    head, _, rest = text.partition("\n")
    room = MAX_CARD - len(head) - len(LEFT_OUT)
    return f"{head}{LEFT_OUT}{rest[-room:]}" if room > 0 else text[:MAX_CARD]
