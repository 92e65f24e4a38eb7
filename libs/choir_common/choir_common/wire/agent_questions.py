"""Questions of one agent to another: their conversations, and the input and output of `choir.agent.ask`.

See docs/agents.md.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, WireModel
from choir_common.wire.provenance import LaneTaint

ASK_TOOL = "choir.agent.ask"
STOP_TOOL = "choir.agent.stop"
"""Ends a question that nobody waits for any more. Not offered to models."""
MAX_QUESTION = 20_000
MAX_ANSWER = 60_000
"""Characters."""
DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
QUESTION_DM_PREFIX = "ask."


def question_dm(asking: str, answering: str) -> str:
    """Return the name of the conversation of one agent's questions to another.

    Names of agents have no dot, so no two pairs get the same one.
    """
    return f"{QUESTION_DM_PREFIX}{asking}.{answering}"


def is_question_dm(dm: str) -> bool:
    """Return whether a conversation has the name of one for questions between agents."""
    return dm.startswith(QUESTION_DM_PREFIX)


class AgentQuestion(WireModel):
    """Input of `choir.agent.ask`."""

    agent: AgentName
    question: str = Field(min_length=1, max_length=MAX_QUESTION)
    timeout_s: int = Field(default=DEFAULT_TIMEOUT_S, ge=5, le=MAX_TIMEOUT_S)
    """How long to wait for the answer."""
    holds: LaneTaint
    """What the asking lane holds, set by the agent process."""


class QuestionStop(WireModel):
    """Input of `choir.agent.stop`; the call id is that of the question."""


class AgentAnswer(WireModel):
    """Output of `choir.agent.ask`."""

    state: Literal["open", "answered"]
    """`open`: the call is to be repeated, and waits on."""
    agent: str
    question_id: str
    answer: str = ""
    session_id: str = ""
    """The session of the agent that has the question, once it has taken it up."""
    holds: LaneTaint | None = None
    """What the lane of the answer holds; None: that is not known."""


class QuestionOrigin(WireModel):
    """Mark of a message that is another agent's question: who asks, and for whom that agent asks."""

    question_id: str
    agent: str
    session_id: str
    call_id: str
    askers: tuple[str, ...]
    """The agents that asked one another, the first one first, the one that asks last."""
    first_question: str
    """The question from which all of them follow."""
    holds: LaneTaint
    """What the asking lane holds."""
