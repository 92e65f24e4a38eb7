"""The eight verbs of the agent protocol, `POST /rpc/<verb>` from agent to control.

Session and token are in headers (`X-Choir-Session-Id`, `Authorization: Bearer`), never in the body. See
docs/design/protocol.md.
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
    """INIT_HELLO: a new agent process identifies itself and the epoch it was started with."""

    agent_id: str
    session_id: str
    epoch: int
    image_version: str
    tool_manifest_hash: str
    skill_manifest_hash: str


class ResourceBindings(Wire):
    """The resources of this session, by name."""

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


class SecretsRequest(Wire):
    """GET_SECRETS: names only; control returns those that the session's bindings allow."""

    resources: tuple[str, ...]


class SecretsResponse(Wire):
    """Secret values, for use in the agent's memory only."""

    secrets: dict[str, str]


class HeartbeatRequest(Wire):
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


class HeartbeatResponse(Wire):
    """All events up to `ack_rev` are durable."""

    ack_rev: int
    config_version_latest: int


ApprovalKind = Literal["call", "tool", "skill", "config_change", "repo_change"]
"""`call`: one use of a tool; the others are proposals."""


class ApprovalRequest(Wire):
    """REQUEST_APPROVAL: ask a human for one tool call, or for a change to what the agent can do."""

    request_type: ApprovalKind
    call_id: str
    payload: JsonObject


class ApprovalResponse(Wire):
    """The status of the request; the same call_id always gets the same approval."""

    approval_id: str
    status: Literal["pending", "approved", "rejected", "expired"]
    """`expired`: no decision in time, which is treated as not approved."""


STATE_PREFIXES = ("EDGE_", "CORE_")


class ModelFailure(Wire):
    """A model whose latest call failed."""

    model: str
    since: Moment
    """When the first call of the current series of failures failed."""
    words: str
    """Model, endpoint, the latest failure, and how to fix it."""


class StatusReport(Wire):
    """REPORT_STATUS: the current state of a lane."""

    lane: str
    state: str
    skill: str | None = None
    step: str | None = None
    budget_remaining: dict[str, int] = Field(default_factory=dict)
    model_failure: ModelFailure | None = None
    """Set if the lane's model does not respond."""

    @property
    def state_word(self) -> str:
        """Return the state for display: `EDGE_WAITING_FOR_TOOL` is `waiting for tool`."""
        for prefix in STATE_PREFIXES:
            if self.state.startswith(prefix):
                return self.state.removeprefix(prefix).lower().replace("_", " ")
        return self.state


class TerminateRequest(Wire):
    """TERMINATE_SELF: the agent has flushed its log and is about to exit."""

    reason: str


class Ack(Wire):
    """An empty acknowledgement."""

    ack: Literal[True] = True


class ConfigRequest(Wire):
    """FETCH_DYNAMIC_CONFIG: request the settings if they are newer than this version."""

    current_config_version: int


class ConfigResponse(Wire):
    """The complete settings; None if the caller has the latest version."""

    config_version: int
    config: AgentSettings | None


class HostToolRequest(Wire):
    """EXECUTE_HOST_TOOL: run a tool on the host; `call_id` is the idempotency key."""

    tool_name: str
    call_id: str
    input: JsonObject


class HostToolResponse(Wire):
    """The outcome; for an error `output` has `code` and `message`."""

    call_id: str
    status: Literal["success", "error"]
    output: JsonObject
