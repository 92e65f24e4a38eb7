"""What memory lays beside a user's message unasked: wishes, facts, what was said before."""

from pydantic import Field

from choir_common.wire.memories import Kind
from choir_common.wire.model import AgentName, Moment, Wire

REMINDERS = "[Choir] From memory"
"""How the block of them begins in a prompt; it stands behind the user's words, in the same message."""
MAX_KNOWN = 500


class RemindersWanted(Wire):
    """A user has said something; what should the agent have in mind?"""

    agent_id: AgentName
    text: str = Field(min_length=1, max_length=10_000)
    """The user's words."""
    session_id: str = Field(min_length=1, max_length=200)
    """The session they are said in: its own words stand in the prompt or in its summary."""
    known: tuple[str, ...] = Field(default=(), max_length=MAX_KNOWN)
    """Documents that stand in the prompt already."""
    budget_tokens: int = Field(default=600, ge=50, le=20_000)
    """What all of them may take, counted as a token for every three bytes."""
    deadline_ms: int = Field(default=800, ge=10, le=9_000)
    """When the time is up, the vectors are left out of the searches."""


class Reminder(Wire):
    """Something the agent knows or lived through, dated and with its origin."""

    document_id: str
    kind: Kind
    text: str
    at: Moment
    """When it was said or happened."""
    speaker: str | None = None
    session_id: str | None = None
    """The session it was said in; or the collection it was cut from."""
    origin: str = "agent"
    trust: int = 50
    times: int = 1
    """How often the same was said, word for word; this is the newest."""


class Reminders(Wire):
    """Wishes of the user first, then what the message names, then what is near it; often nothing."""

    reminders: tuple[Reminder, ...]
    receipts: tuple[str, ...] = ()
    """Of the searches that were made for it."""
    empty: bool = False
    """Memory holds nothing but this session: there is no use in asking again soon."""
