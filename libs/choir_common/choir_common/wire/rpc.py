"""The eight verbs of the agent protocol, `POST /rpc/<verb>` from agent to control, and an agent's start.

Session and token are in headers (`X-Choir-Session-Id`, `Authorization: Bearer`), never in the body. The
start parameters are one JSON line on standard input: a token there is visible in no environment, argument
list or file. See docs/design/protocol.md.
"""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.lane_text import state_text
from choir_common.wire.activity import MAX_DRAFT
from choir_common.wire.config import AgentSettings
from choir_common.wire.events import Event
from choir_common.wire.grants import MAX_NEW_HOSTS, GrantScope, GrantUse, Host
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.model import AwareTime, JsonObject, WireModel

VERBS = (
    "INIT_HELLO",
    "GET_SECRETS",
    "HEARTBEAT",
    "REQUEST_APPROVAL",
    "REPORT_STATUS",
    "TERMINATE_SELF",
    "FETCH_DYNAMIC_CONFIG",
    "EXECUTE_HOST_TOOL",
)


class HelloRequest(WireModel):
    """INIT_HELLO: a new agent process identifies itself and the epoch it was started with."""

    agent_id: str
    session_id: str
    epoch: int
    image_version: str
    tool_manifest_hash: str
    skill_manifest_hash: str


class ResourceBindings(WireModel):
    """The resources of this session, by name."""

    workspace: str
    llm: str
    dm: str
    core_llm: str | None = None
    search: str | None = None
    voice_profile: str | None = None
    transcription: str | None = None
    git_identity: str | None = None
    notion: str | None = None
    email: str | None = None


class HelloResponse(WireModel):
    """The data that the agent needs to continue from the end of the durable log."""

    status: Literal["fresh", "resumed"]
    epoch: int
    continues: str | None
    resource_bindings: ResourceBindings
    snapshot: JsonObject | None = None
    """For a session that continues another and has not copied it yet: `events`, the end of that log."""
    head_rev: int
    head_hash: str
    tail_events: tuple[Event, ...]
    """The newest events up to the head, oldest first. They start at `window_from` of the newest snapshot, or
    at an open turn if that is earlier. Above 4,000 events the list is cut, but it always includes the
    snapshot."""
    config_version: int
    config: AgentSettings
    memory_mode: MemoryMode = DEFAULT_MODE
    """Memory mode of the session, from its start to its end."""
    previous_memory_mode: MemoryMode = DEFAULT_MODE
    """Mode of the session before in the same conversation."""


class SecretsRequest(WireModel):
    """GET_SECRETS: names only; control returns those that the session's bindings allow."""

    resources: tuple[str, ...]


class SecretsResponse(WireModel):
    """Secret values, for use in the agent's memory only."""

    secrets: dict[str, str]


class HeartbeatRequest(WireModel):
    """HEARTBEAT: sign of life, with the events after `base_rev` in order."""

    agent_id: str
    epoch: int
    base_rev: int = Field(ge=0)
    new_rev: int = Field(ge=0)
    patches: tuple[Event, ...] = Field(default=(), max_length=1000)
    config_version: int
    hash_prev: str
    hash_new: str
    timestamp: str


class HeartbeatResponse(WireModel):
    """All events up to `ack_rev` are durable."""

    ack_rev: int
    config_version_latest: int


MAX_WHY = 2_000
ApprovalKind = Literal[
    "call", "mcp_tools", "mcp_question", "tool", "skill", "config_change", "repo_change"
]
"""`call`: one use of a tool; `mcp_tools`: the tools of an MCP server; `mcp_question`: a question of an MCP
server during a call; the others are proposals."""
WITHOUT_EFFECT: tuple[ApprovalKind, ...] = ("call", "mcp_tools", "mcp_question")
"""The kinds whose approval control does not have to carry out."""


class ApprovalRequest(WireModel):
    """REQUEST_APPROVAL: ask a human for one tool call, or for a change to what the agent can do."""

    request_type: ApprovalKind
    call_id: str
    payload: JsonObject
    why: str = Field(default="", max_length=MAX_WHY)
    """Why a person is asked, in one or more lines; shown with the request."""
    scopes: tuple[GrantScope, ...] = ("once",)
    """The scopes that a yes may have."""
    grants: GrantUse = "any"
    hosts: tuple[Host, ...] = Field(default=(), max_length=MAX_NEW_HOSTS)
    """Hosts of the call that are new to the agent."""
    job_id: str | None = None
    """The core job that makes the call."""
    dm: str = ""
    """The conversation that the call, or its core job, works for; empty: the home conversation."""


class ApprovalResponse(WireModel):
    """The status of the request; the same call_id always gets the same approval."""

    approval_id: str
    status: Literal["pending", "approved", "rejected", "expired"]
    """`expired`: no decision in time, which is treated as not approved."""
    grant_id: str | None = None
    """The earlier yes that answered; nobody was asked."""
    values: JsonObject | None = None
    """What a person answered to the form of an MCP server."""


class ModelFailure(WireModel):
    """A model whose latest call failed."""

    model: str
    since: AwareTime
    """When the first call of the current series of failures failed."""
    words: str
    """Model, endpoint, the latest failure, and how to fix it."""


class ModelInUse(WireModel):
    """A lane's model, with the context window that the lane works with."""

    name: str
    """Its name in config.json."""
    model: str
    context_window: int
    """Tokens."""
    is_small: bool = False
    """Whether the model gets short instructions and fewer tools because of its window."""


class AwaitedLock(WireModel):
    """A lock that a lane waits for, and the lanes that are before it."""

    resource: str
    mode: Literal["S", "X"]
    lanes: tuple[str, ...]
    """The lanes that have a conflicting lock, or wait for one since longer."""


MAX_MCP_SERVERS = 32
McpServerState = Literal["starting", "waiting", "ready", "refused", "restarting", "failed"]
"""`waiting`: for a person's yes to its tools; `refused`: somebody said no; `failed`: it is not tried again
before its configuration changes."""


MAX_PROGRESS_LINES = 5


class McpServerStatus(WireModel):
    """An MCP server of an agent, and the tools that are offered now."""

    name: str
    state: McpServerState
    tools: tuple[str, ...] = Field(default=(), max_length=200)
    """Canonical names, such as `mcp.github.search_issues`."""
    detail: str = Field(default="", max_length=500)
    """Why it is not ready, or what was left out of its tools."""
    progress: tuple[Annotated[str, Field(max_length=500)], ...] = Field(
        default=(), max_length=MAX_PROGRESS_LINES
    )
    """What it reports of calls that run now, such as `index: 3 of 10, reading files`."""


MAX_HARNESSES = 32
HarnessState = Literal["starting", "ready", "failed"]
"""What the agent found when it tried the harness: at its own start, and after each change of its settings."""


class HarnessStatus(WireModel):
    """A harness of an agent, and what it says of itself."""

    name: str
    state: HarnessState
    protocol: str = ""
    protocol_version: str = ""
    about: str = Field(default="", max_length=500)
    """Its own name and version."""
    capabilities: tuple[str, ...] = Field(default=(), max_length=50)
    can_resume: bool = False
    """Whether its jobs go on after a crash of the agent."""
    detail: str = Field(default="", max_length=500)
    """Why it is not ready."""


class StatusReport(WireModel):
    """The current state of a lane."""

    lane: str
    state: str
    skill: str | None = None
    step: str | None = None
    budget_remaining: dict[str, int] = Field(default_factory=dict)
    model_failure: ModelFailure | None = None
    """Set if the lane's model does not respond."""
    model: ModelInUse | None = None
    """The lane's model; None until its context window is known."""
    lock_waits: tuple[AwaitedLock, ...] = ()
    """The locks that its calls wait for now."""
    mcp_servers: tuple[McpServerStatus, ...] = Field(default=(), max_length=MAX_MCP_SERVERS)
    """The MCP servers of the agent; in the reports of its home conversation only."""
    harnesses: tuple[HarnessStatus, ...] = Field(default=(), max_length=MAX_HARNESSES)
    """The harnesses of the agent; as above."""

    @property
    def state_label(self) -> str:
        """Return the state for display: `EDGE_WAITING_TOOL` is `waiting for a tool`."""
        return state_text(self.state)


class ReplyDraft(WireModel):
    """The text that the edge lane's model has written so far in its current call."""

    read_rev: int = Field(ge=0)
    """The prompt covered the log up to this revision; a later reply ends the draft."""
    text: str = Field(max_length=MAX_DRAFT)


MAX_JOB_TOOLS = 2_000


class StatusRequest(StatusReport):
    """REPORT_STATUS: the state of a lane, or the draft of its reply."""

    draft: ReplyDraft | None = None
    """Only shown to the user: neither stored nor logged."""
    job_tools: tuple[str, ...] = Field(default=(), max_length=MAX_JOB_TOOLS)
    """Canonical names of the tools that core jobs may use; in the reports of the home conversation only."""


class TerminateRequest(WireModel):
    """TERMINATE_SELF: the agent has flushed its log and is about to exit."""

    reason: str


class Ack(WireModel):
    """An empty acknowledgement."""

    ack: Literal[True] = True


class ConfigRequest(WireModel):
    """FETCH_DYNAMIC_CONFIG: request the settings if they are newer than this version."""

    current_config_version: int


class ConfigResponse(WireModel):
    """The complete settings; None if the caller has the latest version."""

    config_version: int
    config: AgentSettings | None


class HostToolRequest(WireModel):
    """EXECUTE_HOST_TOOL: run a tool on the host; `call_id` is the idempotency key."""

    tool_name: str
    call_id: str
    input: JsonObject
    dm: str = ""
    """The conversation that the call, or its core job, works for; empty: the home conversation."""


class HostToolResponse(WireModel):
    """The outcome; for an error `output` has `code` and `message`."""

    call_id: str
    status: Literal["success", "error"]
    output: JsonObject


class AgentStartParameters(WireModel):
    """The agent's identity, control's address and the lease token."""

    agent_id: str
    session_id: str
    epoch: int = Field(ge=1)
    lease_token: str
    endpoint: str
    """Control's address: `unix:///path/choir.sock` or `http(s)://host:port`."""
    ca_pem: str = Field(default="", max_length=50_000)
    """The only certificates trusted for an `https` endpoint; empty: those of the system."""
    workspace: str
    """Path of the workspace directory inside the agent's file system."""
    choir_dir: str
    """Path of the identity directory (`/choir`) inside the agent's file system."""
    image_version: str = ""
    egress_socket: str = ""
    """Path of the egress proxy's socket; empty if the agent connects without a proxy."""
    egress_key: str = ""
    """Key of the passwords at the egress proxy."""
    egress_address: str = ""
    """`host:port` of the egress proxy where no socket leads to it; empty if one does."""
    egress_certificate: str = Field(default="", max_length=50_000)
    """The proxy's certificate at that address, the only one trusted."""


HOST_TOOL = "choir.log.search"
MIN_HASH_PREFIX = 6
MAX_TERMS = 32
MAX_EVENTS = 200


class LogSearch(WireModel):
    """Search the events before `before_rev` by words or by a hash prefix, best match first."""

    mode: Literal["keyword", "hash"]
    terms: tuple[str, ...] = Field(min_length=1, max_length=MAX_TERMS)
    """Lower-case words as they appear in JSON, or one hash prefix."""
    types: tuple[str, ...] = Field(max_length=100)
    """The event types to search."""
    before_rev: int = Field(ge=1)
    limit: int = Field(ge=1, le=MAX_EVENTS)


class LogMatches(WireModel):
    """The matching events: those with most of the words first, newer ones first among equals."""

    events: tuple[Event, ...] = ()
