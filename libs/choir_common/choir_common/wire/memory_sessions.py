"""What sessions leave in an agent's memory: units, in the order they were lived (spec 11.4, 11.5)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.events import Event
from choir_common.wire.json import JsonObject
from choir_common.wire.memories import Text
from choir_common.wire.model import AgentName, Moment, Wire

UnitKind = Literal["turn", "tools", "note", "summary"]
"""Of what is told: words, a run of tools, a remark, a part of a summary."""
Origin = Literal["web", "tool", "agent", "user", "operator", "derived"]
"""Where the words come from, which says how far they can be trusted."""
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
UnitId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MAX_UNITS = 256


class SessionUnit(Wire):
    """One thing that search ranks; its neighbours are the positions beside its own."""

    id: UnitId
    """Of the writer's choosing, unique in the session: the same id always makes the same row."""
    text: Text
    at: Moment
    position: int = Field(ge=0, le=2_000_000_000)
    ended_at: Moment | None = None
    speaker: str | None = Field(default=None, max_length=200)
    kind: UnitKind = "turn"
    origin: Origin = "user"
    trust: int | None = Field(default=None, ge=0, le=100)
    """None: what the origin deserves."""
    metadata: JsonObject = Field(default_factory=dict)


class RecordUnits(Wire):
    """Write units of a session; repeating it changes nothing."""

    agent_id: AgentName
    session_id: SessionId
    units: tuple[SessionUnit, ...] = Field(max_length=MAX_UNITS)


class UnitsRecorded(Wire):
    """The row of each given unit, in their order, and how many were new or said something new."""

    document_ids: tuple[str, ...]
    written: int


class SessionEnd(Wire):
    """The session has ended, and this many of the agent's newest stay searchable event by event."""

    at: Moment
    mid_term_sessions: int = Field(ge=0, le=100_000)


class ArchivePage(Wire):
    """The next events of a session's log, in order; the last page of an ended one says so."""

    agent_id: AgentName
    session_id: SessionId
    started_at: Moment
    events: tuple[Event, ...]
    end: SessionEnd | None = None


class Archived(Wire):
    """Up to which revision memory has the session; the next page begins after it."""

    through_rev: int
    ended: bool = False
    """Whether memory knows that there is no more."""
    promoted: tuple[str, ...] = ()
    """Sessions that went to long-term memory now."""


class EraseSession(Wire):
    """Forget a session: nothing of it stays in memory, nor what only it supported."""

    agent_id: AgentName
    session_id: SessionId


class SessionErased(Wire):
    """How many documents went."""

    documents: int
