"""The typed events of a session's log (spec 7.4) and the envelope they travel in.

Made by the agent's arbiter, stored by control, folded by both. An event is never edited; a new field
needs a default, so that old logs always load.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import MAX_FILES, ReceivedFile, SentFile
from choir_common.wire.json import JsonObject
from choir_common.wire.memory_reminders import Reminder
from choir_common.wire.model import Wire
from choir_common.wire.provider_fields import ProviderFields

# imported by those names from here, too
from choir_common.wire.session_events import CarriedEvent as CarriedEvent
from choir_common.wire.session_events import SessionAbandoned as SessionAbandoned
from choir_common.wire.session_events import SessionResumed as SessionResumed
from choir_common.wire.session_events import SessionStarted as SessionStarted
from choir_common.wire.session_events import SessionStopped as SessionStopped
from choir_common.wire.session_events import SessionSuspended as SessionSuspended
from choir_common.wire.session_events import Snapshot as Snapshot
from choir_common.wire.session_events import TurnParked as TurnParked
from choir_common.wire.session_events import TurnUnparked as TurnUnparked
from choir_common.wire.summaries import Fact as Fact
from choir_common.wire.summaries import LaneSummary as LaneSummary
from choir_common.wire.summaries import ReferenceSummary as ReferenceSummary
from choir_common.wire.summaries import SummaryTopic as SummaryTopic

GENESIS = "0" * 64  # the `hash_prev` of a session's first event


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


class UserMsg(Wire):
    """A user's message was taken up; storing this event consumes the inbox row it names."""

    type: Literal["user_msg"] = "user_msg"
    turn_id: str
    inbox_id: str
    dm: str
    text: str
    attachments: tuple[ReceivedFile, ...] = ()
    """The files that came with it, where they lie."""
    edits: str | None = None
    """The channel's id of the user's earlier message that this one corrects."""
    corrects: str = ""
    """What that earlier message said, if it is known."""
    reply_to: str = ""
    """The words of the message that this one replies to."""
    sent: str = ""
    """When it was sent, in the user's time zone, as prompts show it."""


class Reminded(Wire):
    """Memory laid something beside the user's message, unasked; the turn's prompts show it."""

    type: Literal["reminded"] = "reminded"
    turn_id: str
    reminders: tuple[Reminder, ...]
    receipts: tuple[str, ...] = ()
    """Under which memory keeps what it did."""


class ToolCall(Wire):
    """A tool call as the model proposed it."""

    call_id: str
    tool: str
    arguments: str
    """The model's own JSON text; it may be malformed, which the arbiter says."""


class ModelOutput(Wire):
    """A completed model call; in a core job `turn_id` is the job's id, here and below."""

    type: Literal["model_output"] = "model_output"
    turn_id: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    model: str
    finish_reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt's, those the provider had in its prefix cache."""
    duration_ms: float = 0.0
    read_rev: int = 0
    """The prompt held what stood in the log up to here; what was injected later is news to the model."""
    provider_fields: ProviderFields | None = None
    """What the provider sent beside the words and calls, for the same model's next prompts."""


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
Exposure = Literal["edge", "core", "both", "none"]


class ToolResultCommitted(Wire):
    """The outcome of a call, whatever it was; there is exactly one per requested call."""

    type: Literal["tool_result_committed"] = "tool_result_committed"
    turn_id: str
    call_id: str
    tool: str
    status: ToolStatus
    output: JsonObject
    duration_ms: float = 0.0
    exposure: Exposure = "both"
    """The lanes whose prompts may show the output."""
    masked: bool = False
    """Prompts show the summary and the artifact reference only."""
    artifact_ref: str | None = None
    """Where the whole output is when `output` holds a part of it."""


class MemoryWriteCommitted(Wire):
    """A call changed the agent's knowledge."""

    type: Literal["memory_write_committed"] = "memory_write_committed"
    turn_id: str
    call_id: str
    operation: str
    document_id: str | None = None
    key: str | None = None


ReplyKind = Literal["answer", "error", "notice", "report", "message"]
"""`report`: of a job or a decision; `message`: said while the work goes on; `notice`: Choir's own remark."""
PASSING: frozenset[ReplyKind] = frozenset({"notice", "message"})  # they end nothing


class Reply(Wire):
    """Words for the user (audience `user`): storing this event makes an outbox row."""

    type: Literal["reply"] = "reply"
    turn_id: str | None
    dm: str
    text: str
    kind: ReplyKind
    answers: str | None = None
    """The inbox_id this closes; none for a notice."""
    attachments: tuple[SentFile, ...] = Field(default=(), max_length=MAX_FILES)
    """Files that go with the words; control copies them as it stores this event."""
    call_id: str = ""
    """The call of `choir.message.send` that asked for it."""


class ContextBundle(Wire):
    """What a core job is given beside its task (spec 12.7)."""

    facts: tuple[str, ...] = ()
    excerpts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class ToolConstraints(Wire):
    """Narrows a core job's tools and time; an empty list and zero leave them as they are."""

    allowed_tools: tuple[str, ...] = ()
    time_budget_ms: int = Field(default=0, ge=0)


Verbosity = Literal["quiet", "normal", "detailed"]


class CoreStarted(Wire):
    """A core job begins with this briefing, written by the edge lane (CoreJobStart, spec 12.7)."""

    type: Literal["core_started"] = "core_started"
    job_id: str
    job_name: str
    call_id: str
    """The call of `choir.core.spawn` that asked for it."""
    dm: str
    task_spec: str
    context_bundle: ContextBundle = ContextBundle()
    tool_constraints: ToolConstraints = ToolConstraints()
    output_schema: JsonObject | None = None
    verbosity: Verbosity = "normal"
    begun: str = ""
    """When it began, in the user's time zone, as its prompt shows it."""


CoreReportKind = Literal["progress", "plan", "thought_summary", "need_info", "partial_result"]


class CoreReported(Wire):
    """A running core job tells how it stands (CoreEvent, spec 12.7)."""

    type: Literal["core_reported"] = "core_reported"
    job_id: str
    job_name: str
    kind: CoreReportKind
    body: JsonObject
    call_id: str = ""
    """The call of `choir.core.report` that said it."""


CoreOutcome = Literal["completed", "error", "cancelled", "budget_exceeded", "crashed"]


class CoreStopped(Wire):
    """The one terminal event of a core job."""

    type: Literal["core_stopped"] = "core_stopped"
    job_id: str
    job_name: str
    outcome: CoreOutcome
    result: JsonObject | None = None
    """The deliverable, of the asked shape; only when completed."""
    reason: str = ""
    """Why it ended otherwise, in words for the user."""
    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    duration_ms: float = 0.0


class InjectedInstruction(Wire):
    """Further instructions for a lane, read at its next safe point (spec 12.8)."""

    type: Literal["injected_instruction"] = "injected_instruction"
    target: str
    """`edge` or `core:<job>`."""
    turn_id: str | None
    """The open turn or job it reaches; none while the edge lane is idle."""
    text: str
    by: Literal["user", "edge", "session"]
    """`session`: the runtime itself, which asks for a correction or says that no answer came."""
    signal: int | None = None
    """The signal this consumes."""
    call_id: str = ""
    """The call of `choir.core.inject` that asked for it."""
    sent: str = ""
    """When the user sent it, in the user's time zone, as prompts show it."""


class Cancelled(Wire):
    """A turn or a core job is to end at once."""

    type: Literal["cancelled"] = "cancelled"
    target: str
    turn_id: str | None
    by: Literal["user", "edge", "session"]
    signal: int | None = None


class ReportBegun(Wire):
    """The edge lane turns to something it has to tell the user; the reply of that turn closes it."""

    type: Literal["report_begun"] = "report_begun"
    turn_id: str
    dm: str
    subject: str
    """The id of what is told of: a job, or an approval."""
    brief: str
    """What the model is told, and what the user gets should the model fail."""


class ApprovalDecided(Wire):
    """A proposal of this session was decided by a human, or expired without a decision."""

    type: Literal["approval_decided"] = "approval_decided"
    approval_id: str
    status: Literal["approved", "rejected", "expired"]
    what: str
    """The proposal in a few words."""
    dm: str


class SkillStarted(Wire):
    """A lane enters a skill's initial state (spec 10.2)."""

    type: Literal["skill_started"] = "skill_started"
    turn_id: str
    skill: str
    state: str
    input: JsonObject = Field(default_factory=dict)
    call_id: str = ""
    """The call that asked for it; by this a call that a crash cut off knows its own effect."""


class SkillTransitioned(Wire):
    """A lane goes from one state of its skill to another."""

    type: Literal["skill_transitioned"] = "skill_transitioned"
    turn_id: str
    skill: str
    on: str
    from_state: str
    to_state: str
    context: JsonObject = Field(default_factory=dict)
    """What the next step needs to know; structured, and replaced as a whole. For a terminal state the
    skill's output."""
    call_id: str = ""
    """The call that asked for it; none for the error transition the arbiter makes."""


class SkillStopped(Wire):
    """A lane leaves its skill."""

    type: Literal["skill_stopped"] = "skill_stopped"
    turn_id: str
    skill: str
    outcome: Literal["completed", "error", "cancelled"]
    output: JsonObject = Field(default_factory=dict)
    reason: str = ""


class CompactionRequested(Wire):
    """The user or a lane wants a lane's old events folded into its summary."""

    type: Literal["compaction_requested"] = "compaction_requested"
    target: str
    signal: int | None = None


class MemoryCompacted(Wire):
    """A lane's events up to `through_rev` now stand in its reference summary.

    With `failed` nothing changed but the tokens spent: `through_rev` and `summary` are as before.
    """

    type: Literal["memory_compacted"] = "memory_compacted"
    target: str
    through_rev: int
    delta: JsonObject
    """The change as the model gave it (spec 11.3, memory_delta)."""
    summary: ReferenceSummary
    """The summary after it."""
    model: str = ""
    """None when the events rolled off without being summed up, because no model could do it."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: str = ""
    """Why the model's answer could not be used."""


class BudgetExhausted(Wire):
    """A hard stop was reached; the user is asked whether to go on (spec 7.6)."""

    type: Literal["budget_exhausted"] = "budget_exhausted"
    budget: Literal["total_session_tokens", "max_tool_calls_per_session"]
    limit: int
    dm: str


class BudgetGranted(Wire):
    """The user allowed more of a session's budget."""

    type: Literal["budget_granted"] = "budget_granted"
    budget: Literal["total_session_tokens", "max_tool_calls_per_session"]
    amount: int
    inbox_id: str
    """The message that said so."""


EventPayload = Annotated[
    SessionStarted
    | CarriedEvent
    | SessionResumed
    | SessionSuspended
    | SessionStopped
    | UserMsg
    | TurnParked
    | TurnUnparked
    | Reminded
    | ModelOutput
    | ToolCallRequested
    | ToolCallCommitted
    | ToolResultCommitted
    | MemoryWriteCommitted
    | CoreStarted
    | CoreReported
    | CoreStopped
    | InjectedInstruction
    | Cancelled
    | ReportBegun
    | ApprovalDecided
    | SkillStarted
    | SkillTransitioned
    | SkillStopped
    | CompactionRequested
    | MemoryCompacted
    | BudgetExhausted
    | BudgetGranted
    | Snapshot
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


def carried_payload_of(carried: CarriedEvent) -> EventPayload:
    """Parse the payload of the event that was copied.

    Raises pydantic.ValidationError when its type is unknown or the payload does not fit it.
    """
    payload = {**carried.payload, "type": carried.event_type}
    return _PAYLOADS.validate_python(payload, strict=False)


def render_payload(payload: EventPayload) -> JsonObject:
    """Return the payload as it stands in the envelope; its type stands beside it, not in it."""
    return payload.model_dump(mode="json", exclude={"type"})
