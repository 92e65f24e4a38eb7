"""Operations that take longer than a request: status and progress (`/v1/operations`)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Moment, Wire

OperationStatus = Literal["running", "succeeded", "failed", "interrupted"]
Outcome = Literal["built", "redeployed", "skipped", "failed"]


class Begun(Wire):
    """The operation has started; `GET /v1/operations/{operation_id}` returns its progress."""

    operation_id: str


class OperationView(Wire):
    """A long-running operation."""

    operation_id: str
    kind: str
    subject: str
    """The target: an agent's id, a workspace's name, or `all`."""
    status: OperationStatus
    """`interrupted`: choird ended in the middle; nothing is half done, start it again."""
    step: str = ""
    """The current or last step."""
    share: float | None = Field(default=None, ge=0, le=1)
    """Completed share, where known."""
    error: str | None = None
    error_code: str | None = None
    result: JsonObject | None = None
    began_at: Moment
    ended_at: Moment | None = None


class OperationEvent(Wire):
    """A progress message of an operation; its SSE id is `seq`, its SSE event name `kind`."""

    seq: int
    kind: Literal["step", "line", "end"]
    text: str
    share: float | None = None


class AgentOutcome(Wire):
    """The result for one agent: its image, and whether it runs with it."""

    agent_id: str
    outcome: Outcome
    image_version: str = ""
    global_repo_commit: str = ""
    agent_repo_commit: str = ""
    reason: str = ""
    """Why it failed or was skipped."""
    warnings: tuple[str, ...] = ()


class RolloutReport(Wire):
    """The result for each agent, in the order of processing."""

    agents: tuple[AgentOutcome, ...]
