"""The requests for a decision that stand open in a chat, and which of them a typed `y` or `n` is meant for.

Pure. Used by `talk`. A decision is taken for what was on the screen before its line was begun alone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from choir_common.errors import BadInput
from choir_common.wire.messages import OutboundMessage

ANSWER = re.compile(r"(y|yes|n|no)(?:\s+(\d{1,6}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A message with a button for yes and one for no, and when it was shown."""

    number: int
    message: OutboundMessage
    shown_at: float
    yes: str
    no: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What a typed line decides."""

    question: Question
    data: str


@dataclass(slots=True)
class Questions:
    """The open ones, by the outbox id of their message; numbers are not used again."""

    standing: dict[int, Question] = field(default_factory=dict)
    asked: int = 0

    def hear(self, message: OutboundMessage, now: float) -> Question | None:
        """Take up a message: one that asks is returned, one that edits closes what it edits."""
        if message.edits is not None:
            self.standing.pop(message.edits.outbox_id, None)
        data = [button.data for button in message.buttons]
        yes = next((each for each in data if each.endswith(":y")), None)
        no = next((each for each in data if each.endswith(":n")), None)
        if yes is None or no is None or message.outbox_id in self.standing:
            return None
        self.asked += 1
        question = Question(self.asked, message, now, yes, no)
        self.standing[message.outbox_id] = question
        return question

    def close(self, question: Question) -> None:
        """It is decided."""
        self.standing.pop(question.message.outbox_id, None)

    def understand(self, text: str, begun_at: float) -> Decided | None:
        """Return what a line decides; None when it decides nothing, and is for the agent.

        Raises BadInput when it is not clear what it would decide.
        """
        found = ANSWER.fullmatch(text.strip())
        if found is None or not self.standing:
            return None
        question = self._meant(found[2])
        if question.shown_at > begun_at:
            raise BadInput("A request came while you typed. Nothing was decided; read it first.")
        return Decided(question, question.yes if found[1].lower().startswith("y") else question.no)

    def prompt(self) -> str:
        """Return what stands before the line that is typed."""
        return f"{'y/n' if len(self.standing) == 1 else 'y/n NUMBER'} " if self.standing else ""

    def _meant(self, number: str | None) -> Question:
        standing = list(self.standing.values())
        if number is None and len(standing) == 1:
            return standing[0]
        for question in standing:
            if number is not None and question.number == int(number):
                return question
        numbers = ", ".join(f"`y {question.number}`" for question in standing)
        raise BadInput(f"Which of the requests? {numbers}, or n.")


def still_open(messages: Iterable[OutboundMessage]) -> list[OutboundMessage]:
    """Return the messages with buttons that no later one has edited, oldest first."""
    found: dict[int, OutboundMessage] = {}
    for message in messages:
        if message.edits is not None:
            found.pop(message.edits.outbox_id, None)
        elif message.buttons:
            found[message.outbox_id] = message
    return list(found.values())
