"""The eight verbs of an agent's conversation with control (spec 12.5), `POST /rpc/<verb>`.

Session and token travel in headers (`X-Choir-Session-Id`, `Authorization: Bearer`), never here.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.config import AgentSettings
from choir_common.wire.events import Event
from choir_common.wire.json import JsonObject
from choir_common.wire.model import Moment, Wire

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


class HelloRequest(Wire):
    """INIT_HELLO: an agent process introduces itself under the epoch it was started with."""

    agent_id: str
    session_id: str
    epoch: int
    image_version: str
    tool_manifest_hash: str
    skill_manifest_hash: str


class ResourceBindings(Wire):
    """What this session has leased or been bound to, by name."""

    workspace: str
    llm: str
    dm: str
    core_llm: str | None = None
    search: str | None = None
    voice_profile: str | None = None
    git_identity: str | None = None
    notion: str | None = None
    email: str | None = None


class HelloResponse(Wire):
    """What the agent needs to go on where the durable log ends."""

    status: Literal["fresh", "resumed"]
    epoch: int
    continues: str | None
    resource_bindings: ResourceBindings
    snapshot: JsonObject | None = None
    """For a session that continues another and has not copied it yet: `events`, the end of that one's log."""
    head_rev: int
    head_hash: str
    tail_events: tuple[Event, ...]
    """The newest events up to the head, oldest first: from `window_from` of the newest snapshot if there
    is one; bounded, never cut inside an open turn."""
    config_version: int
    config: AgentSettings


class SecretsRequest(Wire):
    """GET_SECRETS: names only; control answers those the session's bindings allow."""

    resources: tuple[str, ...]


class SecretsResponse(Wire):
    """Secret values, for the agent's memory only."""

    secrets: dict[str, str]


class HeartbeatRequest(Wire):
    """HEARTBEAT: sign of life, and the events after `base_rev` in order (spec 13.1)."""

    agent_id: str
    epoch: int
    base_rev: int = Field(ge=0)
    new_rev: int = Field(ge=0)
    patches: tuple[Event, ...] = Field(default=(), max_length=1000)
    config_version: int
    hash_prev: str
    hash_new: str
    timestamp: str


class HeartbeatResponse(Wire):
    """`ack_rev` and all before it are durable."""

    ack_rev: int
    config_version_latest: int


ApprovalKind = Literal["call", "tool", "skill", "config_change", "repo_change"]
"""`call` is the use of one tool, once; the others are proposals (spec 8.10)."""


class ApprovalRequest(Wire):
    """REQUEST_APPROVAL: ask a human for something that changes what the agent can do, or for one call."""

    request_type: ApprovalKind
    call_id: str
    payload: JsonObject


class ApprovalResponse(Wire):
    """Where the request stands; the same call_id always gets the same approval."""

    approval_id: str
    status: Literal["pending", "approved", "rejected", "expired"]
    """`expired`: nobody decided in time, so the answer is no."""


STATE_PREFIXES = ("EDGE_", "CORE_")


class ModelFailure(Wire):
    """A model whose newest call failed."""

    model: str
    since: Moment
    """When the first call failed that no answer followed."""
    words: str
    """Model, endpoint, what happened at the newest call, and what mends it."""


class StatusReport(Wire):
    """REPORT_STATUS: what a lane is doing now."""

    lane: str
    state: str
    skill: str | None = None
    step: str | None = None
    budget_remaining: dict[str, int] = Field(default_factory=dict)
    model_failure: ModelFailure | None = None
    """The lane's model does not answer."""

    @property
    def state_word(self) -> str:
        """Return the state as people say it: `EDGE_WAITING_FOR_TOOL` is `waiting for tool`."""
        for prefix in STATE_PREFIXES:
            if self.state.startswith(prefix):
                return self.state.removeprefix(prefix).lower().replace("_", " ")
        return self.state


class TerminateRequest(Wire):
    """TERMINATE_SELF: the agent has flushed its log and is about to exit."""

    reason: str


class Ack(Wire):
    """Nothing more to say."""

    ack: Literal[True] = True


class ConfigRequest(Wire):
    """FETCH_DYNAMIC_CONFIG: ask for the settings if newer than these."""

    current_config_version: int


class ConfigResponse(Wire):
    """The whole settings, never a part; none if the caller has the newest."""

    config_version: int
    config: AgentSettings | None


class HostToolRequest(Wire):
    """EXECUTE_HOST_TOOL: run a tool on the host's side under an idempotency key, `call_id`."""

    tool_name: str
    call_id: str
    input: JsonObject


class HostToolResponse(Wire):
    """The outcome; for an error `output` holds `code` and `message`."""

    call_id: str
    status: Literal["success", "error"]
    output: JsonObject
