"""What a chat shows below its prompt while nothing is said: who is waited for, who types, open cards.

Pure but for the clock. Used by `talk`; what lanes and jobs do is folded in `lanes`.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from choir_common.visible_text import make_visible
from choir_common.wire.activity import Card, Idle, Typing
from choir_common.wire.messages import OutboundMessage
from choirctl.prompt import FRAME_S
from choirctl.spoken import one_line

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LONGEST_CARD = 300


@dataclass(slots=True)
class Waiting:
    """The messages that have no answer yet: since when, by inbox id."""

    since: dict[str, float] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    """Answers that came before the message's own acknowledgement."""

    def begin(self, inbox_id: str) -> None:
        """A message went out."""
        if inbox_id not in self.closed:
            self.since[inbox_id] = time.monotonic()

    def end(self, message: OutboundMessage) -> None:
        """Something was heard; an answer closes what it answers."""
        if message.answers is not None and message.kind != "notice":
            self.closed.add(message.answers)
            self.since.pop(message.answers, None)

    def spinner(self) -> str:
        """Return for how long an answer has been waited for."""
        if not self.since:
            return ""
        now = time.monotonic()
        frame = FRAMES[int(now / FRAME_S) % len(FRAMES)]
        return f"{frame} thinking, {now - min(self.since.values()):.0f} s"


@dataclass(slots=True)
class GoingOn:
    """What the channel shows of what goes on: open cards, and until when somebody types."""

    cards: dict[str, Card] = field(default_factory=dict)
    typing_until: float = 0.0

    def take(self, what: Card | Typing | Idle, now: float, told: Collection[str]) -> str | None:
        """Take up what goes on; return the words of a card that is done, to be kept on the screen."""
        match what:
            case Typing(lasts_s=lasts):
                self.typing_until = now + lasts
            case Idle():
                self.typing_until = 0.0
            case Card(done=False) as card:
                self.cards[card.card_id] = card
            case Card() as card:
                self.cards.pop(card.card_id, None)
                return None if card.card_id in told else make_visible(card.text)
        return None

    def lines(self, now: float, told: Collection[str]) -> list[str]:
        """Return a line for each card that is not `told` elsewhere, or that somebody types."""
        open_ones = [card for card in self.cards.values() if card.card_id not in told]
        cards = [one_line(card.text, LONGEST_CARD) for card in open_ones]
        return cards or (["typing"] if now < self.typing_until else [])
