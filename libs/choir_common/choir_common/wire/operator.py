"""The operator API under `/v1` (OpenAPI), used by choirctl and scripts."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from choir_common.i18n import _
from choir_common.lanes import MAX_LANE
from choir_common.wire.channel_types import CHANNEL_TYPES, ChannelProperties, ChannelType
from choir_common.wire.events import Event
from choir_common.wire.grants import MAX_GRANT_DAYS, GrantScope
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.messages import AgentState
from choir_common.wire.model import AgentName, AwareTime, JsonObject, Name, WireModel
from choir_common.wire.money import CostLine
from choir_common.wire.rpc import ResourceBindings, StatusReport

ItemT = TypeVar("ItemT")

SessionStatus = Literal[
    "starting", "active", "stopping", "stopped", "suspended", "crashed", "abandoned"
]
"""`suspended`: stopped with open work, which the agent's next start resumes."""


class Page(BaseModel, Generic[ItemT]):
    """A page of a list; pass `next` as `cursor` to get the next one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: list[ItemT]
    next: str | None = None


class AgentView(WireModel):
    """An agent and, if it runs, its session."""

    agent_id: str
    state: AgentState
    session_id: str | None
    epoch: int | None
    bindings: ResourceBindings | None
    model: str | None
    pid: int | None
    """For display only; None if the runtime has no pid to show."""
    started_at: AwareTime | None
    last_heartbeat_at: AwareTime | None
    suspect: bool = False
    """It has missed heartbeats, and will be lost if it stays silent."""
    lanes: tuple[StatusReport, ...] = ()
    queued_messages: int = 0
    config_version: int | None = None
    """The version of its settings, from its latest heartbeat."""
    memory_mode: MemoryMode = DEFAULT_MODE
    """Memory mode of its session; without one, of the next session in its conversation."""
    recall: bool = True
    """Whether it is shown memories."""
    conversations: tuple[str, ...] = ()
    """The conversations that its session serves, the home conversation first; empty if it does not run."""
    conversation_faults: tuple[str, ...] = ()
    """Why conversations that config.json names are not bound."""


class StartAgent(WireModel):
    """Start an agent; omitted fields come from its defaults."""

    workspace: str | None = None
    llm: str | None = None
    dm: str | None = None
    voice_profile: str | None = None
    git_identity: str | None = None
    notion: str | None = None
    email: str | None = None


class InjectText(WireModel):
    """Text for an agent's edge lane at its next safe point."""

    text: str = Field(min_length=1, max_length=100_000)
    dm: Name | None = None
    """The conversation; default: the home conversation."""


class CancelWork(WireModel):
    """Cancel a core job by name; without a name, the edge lane's turn."""

    job: str | None = Field(default=None, min_length=1, max_length=64)
    dm: Name | None = None
    """The conversation; default: the home conversation. With `job`, one of the jobs that it started."""


class CompactMemory(WireModel):
    """Summarize a lane's older events; default: the edge lane's."""

    lane: str | None = Field(default=None, min_length=1, max_length=MAX_LANE)
    session_id: str | None = None
    """Only if this is the current session."""
    dm: Name | None = None
    """The conversation instead of `lane`; default: the home conversation."""


class SignalQueued(WireModel):
    """A signal was queued for a session; `note` describes its effect."""

    agent_id: str
    session_id: str
    signal: int
    note: str


class CommandView(WireModel):
    """A command and all ways to run it."""

    name: str
    """As typed in a conversation, otherwise the choirctl command, otherwise the route."""
    usage: str
    summary: str
    scope: Literal["dm", "admin", "operator"] = "dm"
    """Who may run it: any user in a conversation for its agent, admins there, or only operators."""
    choirctl: str | None = None
    """The arguments after `choirctl`."""
    route: str | None = None
    """Method and path of its route."""


class SessionView(WireModel):
    """A session and the head of its log."""

    session_id: str
    agent_id: AgentName
    status: SessionStatus
    epoch: int
    head_rev: int
    head_hash: str
    continues: str | None
    started_at: AwareTime
    ended_at: AwareTime | None
    end_reason: str = ""
    """Why it ended or is being stopped; empty if nobody said so."""
    rehearsal: bool = False
    """It was started with the scripted rehearsal model."""
    memory_mode: MemoryMode = DEFAULT_MODE
    """In mode `incognito`, memory has nothing of it, and its log is erased when it ends."""
    conversations: tuple[str, ...] = ()
    """The conversations that it serves, or served at its end, the home conversation first."""


class EventPage(WireModel):
    """Events in order of revision; `next` is the `after` of the next page."""

    items: tuple[Event, ...]
    next: int | None


class LogVerification(WireModel):
    """Whether a session's stored log is unchanged."""

    session_id: str
    ok: bool
    events: int
    head_rev: int
    broken_at: int | None = None
    reason: str | None = None
    erased_at: AwareTime | None = None
    """When the log was erased: its hashes and signatures are checked, without the events' content."""
    erased_payloads: int = 0
    """Events whose content was erased and whose hash was kept."""
    signed_from: int | None = None
    """The first revision with a signature of a key of this installation."""
    anchors: int = 0
    """Anchors that contain this log."""
    unknown_keys: tuple[str, ...] = ()
    """Ids of keys that signed events of this log and that this installation does not have."""


ApprovalState = Literal[
    "pending",
    "approved",
    "applying",
    "applied",
    "failed",
    "rejected",
    "expired",
    "reverting",
    "rolled_back",
]


class ApprovalLine(WireModel):
    """A line of what is decided; `head` and `place` say where the lines below it belong."""

    kind: Literal["plain", "head", "place", "old", "new"]
    text: str
    """Characters that a person cannot be sure to see are spelled out, such as `<U+200B>`."""


class ApprovalView(WireModel):
    """A request for a human decision."""

    approval_id: str
    session_id: str
    agent_id: str
    request_type: str
    payload: JsonObject
    status: Literal["pending", "approved", "rejected", "expired"]
    created_at: AwareTime
    resolved_at: AwareTime | None
    digest: str = ""
    """SHA-256 of the canonical JSON of request_type, payload and basis: exactly what is decided."""
    decided_by: str | None = None
    """`operator`, `operator, browser ID` (an id of `choirctl web sessions`), `timeout`, or a DM."""
    basis: JsonObject = Field(default_factory=dict)
    """What it would change and the state it depends on; covered by the digest. Empty in a list."""
    state: ApprovalState = "pending"
    """The decision and the state of its execution."""
    detail: str = ""
    """Result of the execution, or why nothing can run."""
    scopes: tuple[GrantScope, ...] = ("once",)
    """The scopes that an approval may have."""
    subject: str = ""
    """What it is about: the name of a tool or skill, settings, or a branch; spelled out like the lines."""
    lines: tuple[ApprovalLine, ...] = ()
    """Everything that the digest covers, as people read it: the change first. Empty in a list."""
    intact: bool = True
    """Whether the stored content has this digest; if not, it was changed after the request."""
    hosts: tuple[str, ...] = ()
    """Hosts that are new to the agent; an approval lets it reach them."""
    destinations: tuple[str, ...] = ()
    """Where an approved scope lets later calls of this tool send anything; without any, equal calls only."""


class Decision(WireModel):
    """A human decision on a request."""

    digest: str | None = None
    """The digest that was shown; if the request has another digest, nothing is decided."""
    scope: GrantScope = "once"
    """Which later calls an approval covers; the request lists the possible ones."""
    days: int | None = Field(default=None, ge=1, le=MAX_GRANT_DAYS)
    """Lifetime of the scope `always`; default: 30."""
    values: JsonObject | None = None
    """The values of the form of an `mcp_question`, by name, as JSON or as text; without it, its defaults."""
    dismiss: bool = False
    """With a rejection of an `mcp_question`: it is closed without an answer (`cancel` of the protocol)."""


class DmView(WireModel):
    """A configured conversation; `agent_id` uses it now (`bound`) or would by default."""

    name: str
    gateway: str
    type: ChannelType = "console"
    """The type of the gateway; only console conversations are available over HTTP."""
    admin: bool
    agent_id: str | None
    bound: bool
    memory_mode: MemoryMode = DEFAULT_MODE
    """Mode of its session; without one, of its next session."""
    last_outbox_id: int = 0
    """The id of the newest message to the user; 0 without any."""

    @property
    def channel(self) -> ChannelProperties:
        """Return the properties of the gateway's type."""
        return CHANNEL_TYPES[self.type]


HOST_LACKS = _("this host lacks")
"""The beginning of the detail of a runtime whose confinement is incomplete."""


class ComponentStatus(WireModel):
    """The status of one component, and the reason if it is down."""

    name: str
    ok: bool
    detail: str = ""


class ReadinessReport(WireModel):
    """Answer of a service's `/readyz`."""

    ready: bool
    parts: tuple[ComponentStatus, ...]


class SystemStatus(WireModel):
    """The status of the whole system."""

    ready: bool
    version: str
    config_version: int
    home: str
    model: str
    parts: tuple[ComponentStatus, ...]
    channels: tuple[ComponentStatus, ...] = ()
    """The gateways of config.json that report a state: those of messengers."""
    agents: tuple[AgentView, ...] = Field(default=())
    spent_today: CostLine | None = None
    """What all agents and memory have spent today; None without a database."""
    unpriced: tuple[str, ...] = ()
    """Paths in config.json of the models, voices and other entries whose price is unknown."""
    full_workspaces: tuple[str, ...] = ()
    """Workspaces over a limit, each with what it has and may have."""
