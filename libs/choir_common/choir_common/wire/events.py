"""Typed events of a session's log, and their envelope.

Made by the agent's arbiter, stored by control, folded by both. An event is never changed. A new field needs
a default, so that old logs can always be read. See docs/design/log-and-recovery.md.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import MAX_FILES, PictureRef, ReceivedFile, SentFile
from choir_common.wire.budget_events import BudgetExhausted as BudgetExhausted
from choir_common.wire.budget_events import BudgetGranted as BudgetGranted
from choir_common.wire.budget_events import SessionBudget as SessionBudget
from choir_common.wire.budget_events import UsageRecorded as UsageRecorded
from choir_common.wire.connections import HostConnections
from choir_common.wire.core_jobs import ContextBundle as ContextBundle
from choir_common.wire.core_jobs import ToolConstraints as ToolConstraints
from choir_common.wire.core_jobs import Verbosity as Verbosity
from choir_common.wire.model import DEFERRED, JsonObject, WireModel
from choir_common.wire.money import ModelUsage

# Re-exported: most modules import these from here.
from choir_common.wire.preparation_events import AttachmentsRead as AttachmentsRead
from choir_common.wire.preparation_events import PictureDescribed as PictureDescribed
from choir_common.wire.preparation_events import RemindersAdded as RemindersAdded
from choir_common.wire.provenance import LaneTaint, ResultProvenance
from choir_common.wire.schedules import WakeUp
from choir_common.wire.session_events import CarriedEvent as CarriedEvent
from choir_common.wire.session_events import CompactionRequested as CompactionRequested
from choir_common.wire.session_events import ConversationSummary as ConversationSummary
from choir_common.wire.session_events import Fact as Fact
from choir_common.wire.session_events import FallbackChanged as FallbackChanged
from choir_common.wire.session_events import LaneSummary as LaneSummary
from choir_common.wire.session_events import MemoryModeChanged as MemoryModeChanged
from choir_common.wire.session_events import ProviderFields as ProviderFields
from choir_common.wire.session_events import ReferenceSummary as ReferenceSummary
from choir_common.wire.session_events import SessionAbandoned as SessionAbandoned
from choir_common.wire.session_events import SessionResumed as SessionResumed
from choir_common.wire.session_events import SessionStarted as SessionStarted
from choir_common.wire.session_events import SessionStopped as SessionStopped
from choir_common.wire.session_events import SessionSuspended as SessionSuspended
from choir_common.wire.session_events import Snapshot as Snapshot
from choir_common.wire.session_events import SummaryTopic as SummaryTopic
from choir_common.wire.session_events import TurnParked as TurnParked
from choir_common.wire.session_events import TurnUnparked as TurnUnparked
from choir_common.wire.speakers import MessageSpeaker
from choir_common.wire.speech import SpeechUsage

GENESIS = "0" * 64  # the `hash_prev` of a session's first event


class Event(WireModel):
    """One entry of a session's log; `hash` covers all other fields (see eventlog.chain)."""

    session_id: str
    rev: int = Field(ge=1)
    lane: str
    """`edge`, `edge:<dm>`, `core:<job>`, `session` (the agent itself) or `control` (a tombstone)."""
    type: str
    payload: JsonObject
    at: str
    """UTC, ISO 8601 with microseconds and `Z`, exactly as hashed."""
    hash_prev: str
    hash: str


class UserMessageStarted(WireModel):
    """The edge lane started a user's message; storing this event consumes the inbox row it names."""

    type: Literal["user_msg"] = "user_msg"
    turn_id: str
    inbox_id: str
    dm: str
    text: str
    """What the user wrote, and after it what the user said in voice messages."""
    attachments: tuple[ReceivedFile, ...] = ()
    """The message's files and their paths in the workspace."""
    edits: str | None = None
    """The channel's id of the user's earlier message that this one corrects."""
    corrects: str = ""
    """Text of that earlier message, if known."""
    reply_to: str = ""
    """Text of the message that this one replies to."""
    sent: str = ""
    """When it was sent, in the user's time zone, as shown in prompts."""
    speaker: MessageSpeaker | None = None
    """Who wrote it; None: the user of a private conversation who is nobody in `people`, or a schedule."""
    wake_up: WakeUp | None = None
    """Set if a schedule, a trigger or another agent sent it and no person wrote it."""
    usage: tuple[SpeechUsage, ...] = ()
    """Transcriptions of its voice messages."""


class ToolCall(WireModel):
    """A tool call as the model proposed it."""

    call_id: str
    tool: str
    arguments: str
    """The model's own JSON text; it may be malformed, which the arbiter reports."""


NoteKind = Literal["jobs", "limit", "input", "skill"]
"""What a note is about: open core jobs, the answers left in a skill, its current input, or its step."""


class PromptNote(WireModel):
    """A remark that Choir added to a prompt because something had changed; later prompts repeat it there."""

    kind: NoteKind
    text: str


class ModelOutput(WireModel):
    """A completed model call. In a core job `turn_id` is the job's id, here and in the events below."""

    type: Literal["model_output"] = "model_output"
    turn_id: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    model: str
    finish_reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were in the provider's prefix cache."""
    duration_ms: float = 0.0
    read_rev: int = 0
    """The prompt covered the log up to this revision; later injections are new to the model."""
    provider_fields: ProviderFields | None = None
    """Other fields of the provider's message, for later prompts to the same model."""
    usage: ModelUsage | None = None
    """What the call's price depends on besides the tokens above; None in logs of older versions."""
    notes: tuple[PromptNote, ...] = ()
    """The notes that were new at the end of the prompt. Later prompts repeat them before this output, because
    providers bind their caches, and some models their thoughts, to all that preceded an output."""


class ToolCallRequested(WireModel):
    """A lane proposed a tool call to the arbiter."""

    type: Literal["tool_call_requested"] = "tool_call_requested"
    turn_id: str
    call_id: str
    tool: str
    input: JsonObject


class HeldLock(WireModel):
    """One lock of a call."""

    resource: str
    mode: Literal["S", "X"]


class ToolCallCommitted(WireModel):
    """The arbiter decided to run the call and acquired its locks."""

    type: Literal["tool_call_committed"] = "tool_call_committed"
    turn_id: str
    call_id: str
    tool: str
    locks: tuple[HeldLock, ...] = ()
    approved: bool = False
    """Whether a person, or an earlier yes of a person, allowed this call."""
    grant_id: str | None = None
    """The person's earlier yes that approved the call, if the policy asked."""


ToolStatus = Literal["success", "error", "refused", "interrupted"]
Exposure = Literal["edge", "core", "both", "none"]


class ToolResultCommitted(WireModel):
    """The outcome of a call; there is exactly one for each requested call."""

    type: Literal["tool_result_committed"] = "tool_result_committed"
    turn_id: str
    call_id: str
    tool: str
    status: ToolStatus
    output: JsonObject
    duration_ms: float = 0.0
    exposure: Exposure = "both"
    """The lanes whose prompts may contain the output."""
    masked: bool = False
    """Prompts contain only the summary and the artifact reference."""
    artifact_ref: str | None = None
    """Path of the complete output if `output` is truncated."""
    pictures: tuple[PictureRef, ...] = ()
    """Pictures for models that see."""
    usage: tuple[SpeechUsage, ...] = ()
    """Speech that the call synthesised."""
    provenance: ResultProvenance | None = None
    """The origins of what it brought into the lane; None in logs of older versions."""
    connections: tuple[HostConnections, ...] = ()
    """The hosts that the call contacted through the egress proxy, or tried to."""


class MemoryWriteCommitted(WireModel):
    """A call changed the agent's knowledge."""

    type: Literal["memory_write_committed"] = "memory_write_committed"
    turn_id: str
    call_id: str
    operation: str
    document_id: str | None = None
    key: str | None = None


ReplyKind = Literal["answer", "error", "notice", "report", "message", "silent"]
"""`report`: about a finished job or a decision; `message`: sent while the work continues; `notice`: from
Choir itself; `silent`: the end of a wake-up with nothing to say, which nobody is shown."""
# they close no message and no turn
NON_CLOSING_KINDS: frozenset[ReplyKind] = frozenset({"notice", "message"})


class Reply(WireModel):
    """A message for the user (audience `user`): storing this event creates an outbox row."""

    type: Literal["reply"] = "reply"
    turn_id: str | None
    dm: str
    text: str
    kind: ReplyKind
    answers: str | None = None
    """The inbox_id of the message this closes; None for a notice."""
    attachments: tuple[SentFile, ...] = Field(default=(), max_length=MAX_FILES)
    """Files of the message; control copies them when it stores this event."""
    call_id: str = ""
    """The call of `choir.message.send` that requested it."""
    from_lane: str = ""
    """The lane of another conversation, or the job, whose call sent it here; empty: its own."""
    usage: tuple[SpeechUsage, ...] = ()
    """Speech synthesised for it."""
    holds: LaneTaint | None = None
    """What its lane holds, if it goes to another agent."""


class CoreStarted(WireModel):
    """A core job starts with this briefing from the edge lane."""

    type: Literal["core_started"] = "core_started"
    job_id: str
    job_name: str
    call_id: str
    """The call of `choir.core.spawn` that requested it; empty for a schedule."""
    dm: str
    task_spec: str
    context_bundle: ContextBundle = ContextBundle()
    tool_constraints: ToolConstraints = ToolConstraints()
    output_schema: JsonObject | None = None
    verbosity: Verbosity = "normal"
    begun: str = ""
    """When it started, in the user's time zone, as shown in its prompt."""
    answers: str | None = None
    """The inbox_id of the scheduled message that it does; storing this event closes that message."""
    skill: str = ""
    """The skill that it must run, for a schedule."""
    harness: str = ""
    """The coding agent that does it, by its name in `harnesses`; empty: the agent's own model."""


CoreReportKind = Literal["progress", "plan", "thought_summary", "need_info", "partial_result"]


class CoreReported(WireModel):
    """A running core job reports its progress."""

    type: Literal["core_reported"] = "core_reported"
    job_id: str
    job_name: str
    kind: CoreReportKind
    body: JsonObject
    call_id: str = ""
    """The call of `choir.core.report` that sent it."""


CoreOutcome = Literal["completed", "error", "cancelled", "budget_exceeded", "crashed"]


class CoreStopped(WireModel):
    """The single terminal event of a core job."""

    type: Literal["core_stopped"] = "core_stopped"
    job_id: str
    job_name: str
    outcome: CoreOutcome
    result: JsonObject | None = None
    """The result in the requested shape; only if completed."""
    reason: str = ""
    """Why it ended otherwise, as text for the user."""
    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    duration_ms: float = 0.0


class InjectedInstruction(WireModel):
    """An additional instruction for a lane, read at its next safe point."""

    type: Literal["injected_instruction"] = "injected_instruction"
    target: str
    """`edge`, `edge:<dm>` or `core:<job>`."""
    turn_id: str | None
    """The open turn or job it applies to; None while the edge lane is idle."""
    text: str
    by: Literal["user", "edge", "session"]
    """`session`: the runtime itself, which requests a correction or reports a missing result."""
    signal: int | None = None
    """The signal that this event consumes."""
    call_id: str = ""
    """The call of `choir.core.inject` that requested it."""
    sent: str = ""
    """When the user sent it, in the user's time zone, as shown in prompts."""
    speaker: MessageSpeaker | None = None
    """As in `UserMessageStarted`."""


class Cancelled(WireModel):
    """A turn or a core job must end at once."""

    type: Literal["cancelled"] = "cancelled"
    target: str
    turn_id: str | None
    by: Literal["user", "edge", "session"]
    signal: int | None = None


class ReportBegun(WireModel):
    """The edge lane starts a report to the user; the reply of that turn closes it."""

    type: Literal["report_begun"] = "report_begun"
    turn_id: str
    dm: str
    subject: str
    """The id of the job or approval that the report is about."""
    brief: str
    """The text for the model, and for the user if the model fails."""
    time: str = ""
    """When it began, in the user's time zone, as shown in prompts."""


class ApprovalDecided(WireModel):
    """A human decided a proposal of this session, or it expired."""

    type: Literal["approval_decided"] = "approval_decided"
    approval_id: str
    status: Literal["approved", "rejected", "expired"]
    what: str
    """A short description of the proposal."""
    dm: str


class SkillStarted(WireModel):
    """A lane enters a skill's initial state."""

    type: Literal["skill_started"] = "skill_started"
    turn_id: str
    skill: str
    state: str
    input: JsonObject = Field(default_factory=dict)
    call_id: str = ""
    """The call that requested it; after a crash the interrupted call finds its effect by it. Empty for the
    skill of a schedule."""


class SkillTransitioned(WireModel):
    """A lane moves from one state of its skill to another."""

    type: Literal["skill_transitioned"] = "skill_transitioned"
    turn_id: str
    skill: str
    on: str
    from_state: str
    to_state: str
    context: JsonObject = Field(default_factory=dict)
    """Structured data for the next step, replaced as a whole. For a terminal state, the skill's output."""
    call_id: str = ""
    """The call that requested it; empty for an error transition, which the arbiter makes."""


class SkillStopped(WireModel):
    """A lane leaves its skill."""

    type: Literal["skill_stopped"] = "skill_stopped"
    turn_id: str
    skill: str
    outcome: Literal["completed", "error", "cancelled"]
    output: JsonObject = Field(default_factory=dict)
    reason: str = ""


class MemoryCompacted(WireModel):
    """A lane's events up to `through_rev` are now part of its reference summary.

    With `failed` set nothing changed except the tokens spent: `through_rev` and `summary` are as before.
    """

    type: Literal["memory_compacted"] = "memory_compacted"
    target: str
    through_rev: int
    delta: JsonObject
    """The change as the model returned it."""
    summary: ReferenceSummary
    """The resulting summary."""
    model: str = ""
    """Empty if the events were dropped without a summary, because no model was available."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: str = ""
    """Why the model's output could not be used."""
    taint: LaneTaint | None = None
    """What the summary rests on; None in logs of older versions."""
    cached_tokens: int = 0
    usage: ModelUsage | None = None
    """What the call's price depends on besides the tokens above."""


EventPayload = Annotated[
    SessionStarted
    | CarriedEvent
    | FallbackChanged
    | MemoryModeChanged
    | SessionResumed
    | SessionSuspended
    | SessionStopped
    | UserMessageStarted
    | TurnParked
    | TurnUnparked
    | RemindersAdded
    | AttachmentsRead
    | PictureDescribed
    | ModelOutput
    | UsageRecorded
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

_PAYLOADS: TypeAdapter[EventPayload] = TypeAdapter(EventPayload, config=DEFERRED)


def parse_payload(event: Event) -> EventPayload:
    """Parse an event's payload into its typed model.

    Raises pydantic.ValidationError if the type is unknown or the payload does not match it.
    """
    # Lax validation only for containers: JSON returns tuples as lists.
    return _PAYLOADS.validate_python({**event.payload, "type": event.type}, strict=False)


def parse_carried_payload(carried: CarriedEvent) -> EventPayload:
    """Parse the payload of the event that was copied.

    Raises pydantic.ValidationError if its type is unknown or the payload does not match it.
    """
    payload = {**carried.payload, "type": carried.event_type}
    return _PAYLOADS.validate_python(payload, strict=False)


def render_payload(payload: EventPayload) -> JsonObject:
    """Return the payload for the envelope, which stores its type in a separate field."""
    return payload.model_dump(mode="json", exclude={"type"})
