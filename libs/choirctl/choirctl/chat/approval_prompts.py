"""Pending approval requests of a chat, and the mapping of a typed answer such as `y` to one of them.

Pure. Used by `terminal_chat`. A line only decides a request that was on the screen before the user began to
type it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from choir_common.errors import InvalidRequest
from choir_common.i18n import _, join
from choir_common.wire.messages import OutboundMessage

ANSWER = re.compile(
    r"(y|yes|n|no|m|more)(?:\s+(job|session|always))?(?:\s+(\d{1,6}))?", re.IGNORECASE
)
ANSWERS = {"y": "y", "j": "y job", "s": "y session", "a": "y always", "p": "m", "n": "n"}
"""What the user types for a button, by the code in its data (`a:NONCE:CODE`)."""
EFFECTS = {
    "y": _("approves"),
    "y job": _("until the job ends"),
    "y session": _("until the session ends"),
    "y always": _("also later"),
    "m": _("shows all"),
    "n": _("rejects"),
}


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A message with buttons that decide or show more, and when it was shown (monotonic seconds)."""

    number: int
    message: OutboundMessage
    shown_at: float
    choices: Mapping[str, str]
    """The data of the buttons by what the user types for them."""

    def describe(self) -> str:
        """Return how to answer."""
        typed = join(
            ", ",
            (_("{answer} {effect}").format(answer=it, effect=EFFECTS[it]) for it in self.choices),
        )
        return _("Request {number}: {typed} (with a number: n {number}).").format(
            number=self.number, typed=typed
        )


@dataclass(frozen=True, slots=True)
class ButtonChoice:
    """The decision that a typed line makes: a request, and the data of the button to press."""

    question: PendingApproval
    data: str


@dataclass(slots=True)
class PendingApprovals:
    """The pending requests by the outbox id of their message; a number is never reused."""

    pending: dict[int, PendingApproval] = field(default_factory=dict)
    last_number: int = 0

    def add_message(self, message: OutboundMessage, now: float) -> PendingApproval | None:
        """Register a received message.

        Returns a new PendingApproval if the message asks for a decision. An edit closes the request it edits.
        """
        if message.edits is not None:
            self.pending.pop(message.edits.outbox_id, None)
        choices = _choices(message)
        if "n" not in choices or message.outbox_id in self.pending:
            return None
        self.last_number += 1
        question = PendingApproval(self.last_number, message, now, choices)
        self.pending[message.outbox_id] = question
        return question

    def remove(self, question: PendingApproval) -> None:
        """Remove a request that was decided."""
        self.pending.pop(question.message.outbox_id, None)

    def parse_answer(self, text: str, started_at: float) -> ButtonChoice | None:
        """Return the decision in a line; None if it has none and is a message to the agent.

        Raises InvalidRequest if it is not clear which request is meant, or if one arrived during typing.
        """
        match = ANSWER.fullmatch(text.strip())
        if match is None or not self.pending:
            return None
        question = self._select(match[3])
        if question.shown_at > started_at:
            raise InvalidRequest(
                _("A request arrived while you were typing. Nothing was decided; read it first.")
            )
        answer = f"{match[1][0]} {match[2] or ''}".strip().lower()
        if answer not in question.choices:
            raise InvalidRequest(
                _("Nothing was decided. {describe}").format(describe=question.describe())
            )
        return ButtonChoice(question, question.choices[answer])

    def prompt_prefix(self) -> str:
        """Return the prefix of the prompt: how to answer the pending requests."""
        return f"{'y/n' if len(self.pending) == 1 else 'y/n NUMBER'} " if self.pending else ""

    def _select(self, number: str | None) -> PendingApproval:
        approvals = list(self.pending.values())
        if number is None and len(approvals) == 1:
            return approvals[0]
        for approval in approvals:
            if number is not None and approval.number == int(number):
                return approval
        numbers = ", ".join(f"`y {approval.number}`" for approval in approvals)
        raise InvalidRequest(_("Which of the requests? {numbers}, or n.").format(numbers=numbers))


def _choices(message: OutboundMessage) -> dict[str, str]:
    """Return the data of a message's approval buttons by what the user types for them."""
    codes = {button.data.rpartition(":")[2][:1]: button.data for button in message.buttons}
    return {ANSWERS[code]: data for code, data in codes.items() if code in ANSWERS}


def without_edited(messages: Iterable[OutboundMessage]) -> list[OutboundMessage]:
    """Return the messages with buttons that no later message has edited, oldest first."""
    by_id: dict[int, OutboundMessage] = {}
    for message in messages:
        if message.edits is not None:
            by_id.pop(message.edits.outbox_id, None)
        if message.buttons:
            by_id[message.outbox_id] = message
    return list(by_id.values())
