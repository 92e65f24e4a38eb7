"""A question of an agent to another one, and the rules on questions that follow from one another. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from choir_common.errors import ChoirError, Forbidden

MAX_DEPTH = 3
"""Questions that may follow from one another: A asks B, B asks C, and C asks D."""
UPDATE_PREFIX = "question "
"""Before the id in `inbox.update_id`. Names of conversations have no blank, so no channel can imitate it."""
QuestionState = Literal["open", "answered", "failed", "cancelled", "expired"]


class AnswerMissing(ChoirError):
    """The other agent did not answer."""

    code, status = "no_answer", 502


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question as it is stored; its text is in the inbox."""

    question_id: str
    asking_agent: str
    asking_session: str
    call_id: str
    answering_agent: str
    dm: str
    gateway: str
    askers: tuple[str, ...]
    """The agents that asked one another, the asking one last."""
    first_question: str
    asked_at: datetime
    deadline_at: datetime
    state: QuestionState = "open"

    @property
    def update_id(self) -> str:
        """Return the id under which the inbox stores the message once."""
        return f"{UPDATE_PREFIX}{self.question_id}"


@dataclass(frozen=True, slots=True)
class AskingAgents:
    """The agents that ask one another because of one question, without the one that is asked next."""

    agents: tuple[str, ...]
    first_question: str | None = None
    """None: it is the next question itself."""

    def check_next(self, answering: str) -> None:
        """Raise Forbidden if a question to an agent would close a circle, or follow from too many others."""
        if answering in self.agents:
            way = " asks ".join((*self.agents, answering))
            raise Forbidden(
                f"{answering} itself waits for this answer ({way}), so the question would go in a circle. "
                "Answer with what you have."
            )
        if len(self.agents) > MAX_DEPTH:
            way = " asks ".join(self.agents)
            raise Forbidden(
                f"Questions may follow from one another {MAX_DEPTH} times at most, and this is one of that "
                f"kind already ({way}). Answer with what you have."
            )


@dataclass(frozen=True, slots=True)
class QuestionProgress:
    """What has become of a question's message."""

    state: QuestionState
    is_stored: bool
    """Whether the message is in the inbox."""
    session_id: str | None
    """The session that took it up."""
    is_closed: bool
    """Whether it was closed without an answer."""
    reply: str | None
    """The JSON of the event that answered it."""
    is_answered: bool


@dataclass(frozen=True, slots=True)
class UnsettledQuestion:
    """A question whose message has neither an answer nor an end."""

    question_id: str
    dm: str
    state: QuestionState
    ended_at: datetime | None
    is_stored: bool
    session_id: str | None
    """The session that took the message up."""
