"""Status below the chat prompt: unanswered messages, the typing indicator, open progress cards and the draft
of a reply.

Pure apart from the clock. Used by `terminal_chat`; the activity of lanes and jobs is in `lane_activity`.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.wire.activity import Card, Draft, Idle, Typing
from choir_common.wire.events import NON_CLOSING_KINDS
from choir_common.wire.messages import OutboundMessage
from choirctl.chat.draft_lines import wrap_draft
from choirctl.chat.prompt import REDRAW_INTERVAL_S
from choirctl.chat.render import one_line

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LONGEST_CARD = 300
DRAFT_LASTS_S = (
    60.0  # a draft that has not changed for so long belongs to an agent that was stopped
)


@dataclass(slots=True)
class UnansweredMessages:
    """The messages without an answer: the time each was sent (monotonic seconds), by inbox id."""

    sent_at: dict[str, float] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    """Messages that were answered, perhaps before they were acknowledged."""

    def add(self, inbox_id: str) -> None:
        """Record that a message was sent, unless its answer has arrived already."""
        if inbox_id not in self.answered:
            self.sent_at[inbox_id] = time.monotonic()

    def resolve(self, message: OutboundMessage) -> None:
        """Record a received message; an answer closes the message that it answers."""
        if message.answers is not None and message.kind != "notice":
            self.answered.add(message.answers)
            self.sent_at.pop(message.answers, None)

    def spinner(self) -> str:
        """Return a spinner frame with the age of the oldest unanswered message; empty if there is none."""
        if not self.sent_at:
            return ""
        now = time.monotonic()
        frame = FRAMES[int(now / REDRAW_INTERVAL_S) % len(FRAMES)]
        return _("{frame} thinking, {now:.0f} s").format(
            frame=frame, now=now - min(self.sent_at.values())
        )


@dataclass(slots=True)
class ChannelActivity:
    """Activity sent by the channel: open progress cards, until when the agent is typing, and its draft."""

    cards: dict[str, Card] = field(default_factory=dict)
    typing_until: float = 0.0
    draft: str = ""
    draft_until: float = 0.0

    def apply(
        self, what: Card | Draft | Typing | Idle, now: float, shown_elsewhere: Collection[str]
    ) -> str | None:
        """Apply an activity event; return the text of a finished card, to be printed permanently.

        `shown_elsewhere` contains the ids of cards that are shown elsewhere; their text is not returned.
        """
        match what:
            case Typing(lasts_s=lasts):
                self.typing_until = now + lasts
            case Draft(text=text):
                self.draft, self.draft_until = text, now + DRAFT_LASTS_S
            case Idle():
                self.typing_until, self.draft = 0.0, ""
            case Card(done=False) as card:
                self.cards[card.card_id] = card
            case Card() as card:
                self.cards.pop(card.card_id, None)
                return None if card.card_id in shown_elsewhere else escape_hidden(card.text)
        return None

    def resolve(self, message: OutboundMessage) -> None:
        """Record a received message; a reply replaces the draft."""
        if message.kind not in NON_CLOSING_KINDS and message.edits is None:
            self.draft = ""

    def draft_lines(self, now: float, width: int) -> list[str]:
        """Return the newest lines of the draft of a reply, wrapped; none if there is no draft."""
        return wrap_draft(self.draft, width) if now < self.draft_until else []

    def lines(self, now: float, shown_elsewhere: Collection[str]) -> list[str]:
        """Return a line for each open card not in `shown_elsewhere`; without any, the typing
        indicator."""
        open_cards = [card for card in self.cards.values() if card.card_id not in shown_elsewhere]
        cards = [one_line(card.text, LONGEST_CARD) for card in open_cards]
        return cards or ([_("typing")] if now < self.typing_until else [])
