"""The operator's view over `/v1` (OpenAPI): choirctl and scripts read these."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from choir_common.wire.events import Event
from choir_common.wire.json import JsonObject
from choir_common.wire.messages import AgentState
from choir_common.wire.model import AgentName, Moment, Wire
from choir_common.wire.rpc import ResourceBindings, StatusReport

T = TypeVar("T")

SessionStatus = Literal[
    "starting", "active", "stopping", "stopped", "suspended", "crashed", "abandoned"
]
"""`suspended`: stopped with open work, which the next start of the agent goes on with."""


class Page(BaseModel, Generic[T]):
    """A page of a list; pass `next` as `cursor` for the one after it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: list[T]
    next: str | None = None


class AgentView(Wire):
    """An agent and, if it runs, its session."""

    agent_id: str
    state: AgentState
    session_id: str | None
    epoch: int | None
    bindings: ResourceBindings | None
    model: str | None
    pid: int | None
    """Process or container identity is for people; None when the runtime has no pid to show."""
    started_at: Moment | None
    last_heartbeat_at: Moment | None
    suspect: bool = False
    """It has missed heartbeats, and is lost if it stays silent."""
    lanes: tuple[StatusReport, ...] = ()
    queued_messages: int = 0
    config_version: int | None = None
    """The version of its settings, as its newest heartbeat says."""


class StartAgent(Wire):
    """Start an agent; what is left out comes from its defaults."""

    workspace: str | None = None
    llm: str | None = None
    dm: str | None = None
    voice_profile: str | None = None
    git_identity: str | None = None
    notion: str | None = None
    email: str | None = None


class InjectText(Wire):
    """Words for an agent's edge lane at its next safe point."""

    text: str = Field(min_length=1, max_length=100_000)


class CancelWork(Wire):
    """Cancel a core job by name, or the edge lane's turn without one."""

    job: str | None = Field(default=None, min_length=1, max_length=64)


class CompactMemory(Wire):
    """Sum up a lane's older events; the edge lane's unless one is named."""

    lane: str | None = Field(default=None, min_length=1, max_length=64)
    session_id: str | None = None
    """Only if this is the session that runs now."""


class Told(Wire):
    """A session was told something; `note` says what will happen."""

    agent_id: str
    session_id: str
    signal: int
    note: str


class CommandView(Wire):
    """A command, and all ways to give it."""

    name: str
    """As it is typed in a conversation, else choirctl's words, else the route."""
    usage: str
    summary: str
    scope: Literal["dm", "admin", "operator"] = "dm"
    """Who may give it: anybody in a conversation for its agent, admins there, or operators only."""
    choirctl: str | None = None
    """The words after `choirctl`."""
    route: str | None = None
    """Method and path of the route that does it."""


class SessionView(Wire):
    """A session and where its log stands."""

    session_id: str
    agent_id: AgentName
    status: SessionStatus
    epoch: int
    head_rev: int
    head_hash: str
    continues: str | None
    started_at: Moment
    ended_at: Moment | None
    rehearsal: bool = False
    """It was started with the scripted rehearsal model."""


class EventPage(Wire):
    """Events in order of revision; `next` is the `after` of the following page."""

    items: tuple[Event, ...]
    next: int | None


class Verification(Wire):
    """Whether a session's stored log is what was written."""

    session_id: str
    ok: bool
    events: int
    head_rev: int
    broken_at: int | None = None
    reason: str | None = None
    erased_at: Moment | None = None
    """When retention erased the log: its hashes were compared with the session's head, its words are gone."""


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


class ApprovalView(Wire):
    """A request for a human's decision."""

    approval_id: str
    session_id: str
    agent_id: str
    request_type: str
    payload: JsonObject
    status: Literal["pending", "approved", "rejected", "expired"]
    created_at: Moment
    resolved_at: Moment | None
    digest: str = ""
    """SHA-256 of the canonical JSON of request_type and payload: what exactly is decided on."""
    decided_by: str | None = None
    """`operator`, `timeout`, or a DM."""
    basis: JsonObject = Field(default_factory=dict)
    """What it would change, and what that stands on; covered by the digest. Empty in a list."""
    state: ApprovalState = "pending"
    """The decision, and what became of it."""
    detail: str = ""
    """How carrying it out ended, or why nothing can run."""


class Decision(Wire):
    """A human's word on a request."""

    digest: str | None = None
    """Of what was shown to the human; a request that says something else is then not decided."""


class DmView(Wire):
    """A configured conversation; `agent_id` holds it now (`bound`) or would by default."""

    name: str
    gateway: str
    type: Literal["telegram", "console"] = "console"
    """The type of that gateway; only a console's conversation can be had over HTTP."""
    admin: bool
    agent_id: str | None
    bound: bool


class PartStatus(Wire):
    """One component, up or down, and why."""

    name: str
    ok: bool
    detail: str = ""


class SystemStatus(Wire):
    """The whole system at a glance."""

    ready: bool
    version: str
    config_version: int
    home: str
    model: str
    parts: tuple[PartStatus, ...]
    agents: tuple[AgentView, ...] = Field(default=())
