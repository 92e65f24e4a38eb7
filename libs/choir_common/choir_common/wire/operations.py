"""Work that takes longer than a request: where it stands, and what it says meanwhile (`/v1/operations`)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Moment, Wire

OperationStatus = Literal["running", "succeeded", "failed", "interrupted"]
Outcome = Literal["built", "redeployed", "skipped", "failed"]


class Begun(Wire):
    """The work goes on; `GET /v1/operations/{operation_id}` tells how far it is."""

    operation_id: str


class OperationView(Wire):
    """A long work."""

    operation_id: str
    kind: str
    subject: str
    """What it is done to: an agent's id, a workspace's name, or `all`."""
    status: OperationStatus
    """`interrupted`: choird ended in the middle; nothing is half done, begin it again."""
    step: str = ""
    """What is being done now, or was done last."""
    share: float | None = Field(default=None, ge=0, le=1)
    """How much of it is done, where that is known."""
    error: str | None = None
    error_code: str | None = None
    result: JsonObject | None = None
    began_at: Moment
    ended_at: Moment | None = None


class OperationEvent(Wire):
    """Something a work said; its SSE id is `seq`, its SSE event name `kind`."""

    seq: int
    kind: Literal["step", "line", "end"]
    text: str
    share: float | None = None


class AgentOutcome(Wire):
    """What became of one agent: its image, and whether it runs with it."""

    agent_id: str
    outcome: Outcome
    image_version: str = ""
    global_repo_commit: str = ""
    agent_repo_commit: str = ""
    reason: str = ""
    """Why it failed or was skipped."""
    warnings: tuple[str, ...] = ()


class RolloutReport(Wire):
    """What became of each agent (spec 17.5), in the order they were taken."""

    agents: tuple[AgentOutcome, ...]
