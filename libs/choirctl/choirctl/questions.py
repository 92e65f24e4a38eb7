"""Pending approval requests of a chat, and the mapping of a typed `y` or `n` to one of them.

Pure. Used by `talk`. A line only decides a request that was on the screen before the user began to type it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from choir_common.errors import BadInput
from choir_common.wire.messages import OutboundMessage

ANSWER = re.compile(r"(y|yes|n|no)(?:\s+(\d{1,6}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A message with an approve and a reject button, and when it was shown (monotonic seconds)."""

    number: int
    message: OutboundMessage
    shown_at: float
    yes: str
    no: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision that a typed line makes: a request, and the data of the button to press."""

    question: Question
    data: str


@dataclass(slots=True)
class Questions:
    """The pending requests by the outbox id of their message; a number is never reused."""

    standing: dict[int, Question] = field(default_factory=dict)
    asked: int = 0

    def hear(self, message: OutboundMessage, now: float) -> Question | None:
        """Register a received message.

        Returns a new Question if the message asks for a decision. An edit closes the request it edits.
        """
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
        """Remove a request that was decided."""
        self.standing.pop(question.message.outbox_id, None)

    def understand(self, text: str, begun_at: float) -> Decided | None:
        """Return the decision in a line; None if it has none and is a message to the agent.

        Raises BadInput if it is not clear which request is meant, or if one arrived during typing.
        """
        found = ANSWER.fullmatch(text.strip())
        if found is None or not self.standing:
            return None
        question = self._meant(found[2])
        if question.shown_at > begun_at:
            raise BadInput("A request came while you typed. Nothing was decided; read it first.")
        return Decided(question, question.yes if found[1].lower().startswith("y") else question.no)

    def prompt(self) -> str:
        """Return the prefix of the prompt: how to answer the pending requests."""
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
    """Return the messages with buttons that no later message has edited, oldest first."""
    found: dict[int, OutboundMessage] = {}
    for message in messages:
        if message.edits is not None:
            found.pop(message.edits.outbox_id, None)
        elif message.buttons:
            found[message.outbox_id] = message
    return list(found.values())
