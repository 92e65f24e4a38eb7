"""The typed events of a session's log (spec 7.4) and the envelope they travel in.

Made by the agent's arbiter, stored by control, folded by both. An event is never edited; a new field
needs a default, so that old logs always load.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire

GENESIS = "0" * 64
"""The `hash_prev` of a session's first event."""


class Event(Wire):
    """One entry of a session's log; `hash` covers all the rest (eventlog.chain)."""

    session_id: str
    rev: int = Field(ge=1)
    lane: str
    """`edge`, `core:<job>`, `session` (the agent itself) or `control` (a tombstone)."""
    type: str
    payload: JsonObject
    at: str
    """UTC, ISO 8601 with microseconds and `Z`, as hashed."""
    hash_prev: str
    hash: str


class SessionStarted(Wire):
    """The first event of a session."""

    type: Literal["session_started"] = "session_started"
    agent_id: str
    epoch: int
    continues: str | None = None
    image_version: str = ""


class SessionResumed(Wire):
    """The same session goes on under a new epoch after a crash."""

    type: Literal["session_resumed"] = "session_resumed"
    epoch: int


class SessionStopped(Wire):
    """The agent ended the session in good order; `summary` is the agent's own, if it made one."""

    type: Literal["session_stopped"] = "session_stopped"
    reason: str
    summary: str | None = None


class UserMsg(Wire):
    """A user's message was taken up; storing this event consumes the inbox row it names."""

    type: Literal["user_msg"] = "user_msg"
    turn_id: str
    inbox_id: str
    dm: str
    text: str


class ToolCall(Wire):
    """A tool call as the model proposed it."""

    call_id: str
    tool: str
    arguments: str
    """The model's own JSON text; it may be malformed, which the arbiter says."""


class ModelOutput(Wire):
    """A completed model call."""

    type: Literal["model_output"] = "model_output"
    turn_id: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    model: str
    finish_reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    duration_ms: float = 0.0


class ToolCallRequested(Wire):
    """A lane proposed a tool call to the arbiter."""

    type: Literal["tool_call_requested"] = "tool_call_requested"
    turn_id: str
    call_id: str
    tool: str
    input: JsonObject


class LockHold(Wire):
    """One resource held for a call."""

    resource: str
    mode: Literal["S", "X"]


class ToolCallCommitted(Wire):
    """The arbiter ruled that the call runs, and holds its locks."""

    type: Literal["tool_call_committed"] = "tool_call_committed"
    turn_id: str
    call_id: str
    tool: str
    locks: tuple[LockHold, ...] = ()


ToolStatus = Literal["success", "error", "refused", "interrupted"]


class ToolResultCommitted(Wire):
    """The outcome of a call, whatever it was; there is exactly one per requested call."""

    type: Literal["tool_result_committed"] = "tool_result_committed"
    turn_id: str
    call_id: str
    tool: str
    status: ToolStatus
    output: JsonObject
    duration_ms: float = 0.0


class MemoryWriteCommitted(Wire):
    """A call changed the agent's knowledge."""

    type: Literal["memory_write_committed"] = "memory_write_committed"
    turn_id: str
    call_id: str
    operation: str
    document_id: str | None = None
    key: str | None = None


ReplyKind = Literal["answer", "error", "notice"]


class Reply(Wire):
    """Words for the user (audience `user`): storing this event makes an outbox row."""

    type: Literal["reply"] = "reply"
    turn_id: str | None
    dm: str
    text: str
    kind: ReplyKind
    answers: str | None = None
    """The inbox_id this closes; none for a notice."""


class SessionAbandoned(Wire):
    """Control gave up resuming (poison loop) and told the user; written under a fresh epoch."""

    type: Literal["session_abandoned"] = "session_abandoned"
    dm: str
    text: str
    answers: tuple[str, ...] = ()


EventPayload = Annotated[
    SessionStarted
    | SessionResumed
    | SessionStopped
    | UserMsg
    | ModelOutput
    | ToolCallRequested
    | ToolCallCommitted
    | ToolResultCommitted
    | MemoryWriteCommitted
    | Reply
    | SessionAbandoned,
    Field(discriminator="type"),
]

_PAYLOADS: TypeAdapter[EventPayload] = TypeAdapter(EventPayload)


def payload_of(event: Event) -> EventPayload:
    """Parse an event's payload into its type.

    Raises pydantic.ValidationError when the type is unknown or the payload does not fit it.
    """
    # lax on the container types only: tuples come back from JSON as lists
    return _PAYLOADS.validate_python({**event.payload, "type": event.type}, strict=False)


def render_payload(payload: EventPayload) -> JsonObject:
    """Return the payload as it stands in the envelope; its type stands beside it, not in it."""
    return payload.model_dump(mode="json", exclude={"type"})
