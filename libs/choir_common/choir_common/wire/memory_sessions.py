"""Session data for an agent's memory: units in their order in time."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.events import Event
from choir_common.wire.memory_search import DocumentText, MemoryReader
from choir_common.wire.model import AgentName, AwareTime, JsonObject, WireModel

UnitKind = Literal["turn", "tools", "note", "summary"]
"""What a unit contains: a message, a run of tool calls, a note, or a part of a summary."""
Origin = Literal["web", "tool", "agent", "user", "operator", "derived"]
"""Source of the text, which determines how far it is trusted."""
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
UnitId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MAX_UNITS = 256


class SessionUnit(WireModel):
    """One item that search ranks; its neighbours have the adjacent positions."""

    id: UnitId
    """Chosen by the writer, unique in the session; the same id always maps to the same row."""
    text: DocumentText
    at: AwareTime
    position: int = Field(ge=0, le=2_000_000_000)
    ended_at: AwareTime | None = None
    speaker: str | None = Field(default=None, max_length=200)
    kind: UnitKind = "turn"
    origin: Origin = "user"
    trust: int | None = Field(default=None, ge=0, le=100)
    """None: the default of the origin."""
    metadata: JsonObject = Field(default_factory=dict)


class RecordUnits(WireModel):
    """Write units of a session; repeating it changes nothing."""

    agent_id: AgentName
    session_id: SessionId
    units: tuple[SessionUnit, ...] = Field(max_length=MAX_UNITS)


class UnitsRecorded(WireModel):
    """The row id of each unit, in their order, and how many were new or changed."""

    document_ids: tuple[str, ...]
    written: int


class SessionEnd(WireModel):
    """The session has ended; `mid_term_sessions` of the newest stay in mid-term memory."""

    at: AwareTime
    mid_term_sessions: int = Field(ge=0, le=100_000)


class ArchivePage(WireModel):
    """The next events of a session's log, in order; the last page of an ended session has `end`."""

    agent_id: AgentName
    session_id: SessionId
    started_at: AwareTime
    events: tuple[Event, ...]
    end: SessionEnd | None = None
    home_dm: str = Field(default="", max_length=200)
    """The home conversation, whose lane is `edge`; empty: of a version that did not name it."""
    readers: tuple[MemoryReader, ...] = Field(default=(), max_length=1_000)
    """The people whose memory is kept apart, each with the own conversations; empty: all is shared."""


class ArchiveProgress(WireModel):
    """The last revision that memory has of the session; the next page starts after it."""

    through_rev: int
    ended: bool = False
    """Whether memory has the whole session."""
    promoted: tuple[str, ...] = ()
    """Sessions that this call moved to long-term memory."""


class EraseSession(WireModel):
    """Erase a session from memory, with everything derived from it alone."""

    agent_id: AgentName
    session_id: SessionId


class SessionErased(WireModel):
    """Number of documents erased."""

    documents: int
