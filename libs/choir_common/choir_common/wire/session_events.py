"""Events of a session's lifecycle: start, resumption, end, snapshots, summaries and carried events.

Also the provider-specific fields of an assistant message. Re-exported by `events`, which adds the events of
the work itself.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.memory_modes import MemoryMode
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.provenance import SessionTaint


class SummaryTopic(WireModel):
    """An independent part of a session's summary."""

    title: str
    text: str


class ConversationSummary(WireModel):
    """The agent's own summary of one further conversation of a session."""

    lane: str
    """The lane of the conversation."""
    summary: str
    topics: tuple[SummaryTopic, ...] = ()


class Fact(WireModel):
    """A fact in a reference summary, and the hash of the event it comes from."""

    key: str
    value: str
    source_event: str = ""


class ReferenceSummary(WireModel):
    """Summary of the events that have left a lane's event window."""

    summary: str = ""
    facts: tuple[Fact, ...] = ()
    referenced_sessions: tuple[str, ...] = ()
    referenced_events: tuple[str, ...] = ()


class LaneSummary(WireModel):
    """A lane's reference summary, which covers its events up to `through_rev`."""

    lane: str
    summary: ReferenceSummary
    through_rev: int = 0


class SessionStarted(WireModel):
    """The first event of a session."""

    type: Literal["session_started"] = "session_started"
    agent_id: str
    epoch: int
    continues: str | None = None
    image_version: str = ""
    seed: tuple[LaneSummary, ...] = ()
    """The lane summaries of the session it continues."""
    taint: SessionTaint | None = None
    """The origins of what it takes over; None without a predecessor, and in logs of older versions."""


class CarriedEvent(WireModel):
    """A copy of an event of the session that this one continues, so that its prompts still show it.

    It changes no state: it starts no message and no turn, and nothing is archived because of it.
    """

    type: Literal["carried_event"] = "carried_event"
    session_id: str
    """The session that has the original event in its log."""
    rev: int
    at: str
    event_type: str
    payload: JsonObject


class CompactionRequested(WireModel):
    """The user or a lane requests that a lane's old events are summarized."""

    type: Literal["compaction_requested"] = "compaction_requested"
    target: str
    signal: int | None = None


class FallbackChanged(WireModel):
    """The user was told that another model answers, or that a lane's own model is back.

    Recorded so that each is told once, also after a restart.
    """

    type: Literal["fallback_changed"] = "fallback_changed"
    model: str
    """The name of the lane's own model in config.json."""
    fallback: str = ""
    """The name of the model that answers for it; empty: its own."""


class MemoryModeChanged(WireModel):
    """The memory mode of this session, if it or the mode before is not the default one.

    A session has one mode from its first event to its last, so a change begins a new session.
    """

    type: Literal["memory_mode_changed"] = "memory_mode_changed"
    mode: MemoryMode
    previous: MemoryMode
    """The mode of the session before in the same conversation."""


class SessionResumed(WireModel):
    """The same session continues under a new epoch after a crash."""

    type: Literal["session_resumed"] = "session_resumed"
    epoch: int


class SessionSuspended(WireModel):
    """The agent was stopped with an open turn or job; its next epoch resumes them."""

    type: Literal["session_suspended"] = "session_suspended"
    reason: str


class SessionStopped(WireModel):
    """The agent ended the session normally; `summary` is the agent's own, if it made one."""

    type: Literal["session_stopped"] = "session_stopped"
    reason: str
    summary: str | None = None
    topics: tuple[SummaryTopic, ...] = ()
    """The summary in parts, for long-term memory."""
    conversations: tuple[ConversationSummary, ...] = ()
    """Summaries of further conversations; `summary` is that of the home conversation."""


class TurnParked(WireModel):
    """The edge lane suspends a turn that waits only for a human, to do other work."""

    type: Literal["turn_parked"] = "turn_parked"
    turn_id: str


class TurnUnparked(WireModel):
    """The edge lane resumes a parked turn."""

    type: Literal["turn_unparked"] = "turn_unparked"
    turn_id: str


class Snapshot(WireModel):
    """The folded state at this revision, so that recovery need not replay earlier events."""

    type: Literal["snapshot"] = "snapshot"
    state: JsonObject
    window_from: int
    """The first revision that a prompt or an open job still needs."""


class SessionAbandoned(WireModel):
    """Control stopped resuming the session (poison loop) and informed the user; has a fresh epoch."""

    type: Literal["session_abandoned"] = "session_abandoned"
    dm: str
    text: str
    answers: tuple[str, ...] = ()


class ProviderFields(WireModel):
    """Fields of one assistant message that only the model that sent them can read.

    Examples are reasoning text and signatures: `reasoning_content`, `reasoning_details`, `extra_content`.
    They are sent back unchanged to that model, and to no other.
    """

    origin: str
    """The model that sent them: its name and endpoint."""
    message: JsonObject = Field(default_factory=dict)
    """Fields of the message."""
    calls: tuple[JsonObject, ...] = ()
    """Fields of each tool call, in the order of `tool_calls`, including the provider's own id."""
