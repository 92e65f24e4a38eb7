"""Core jobs: what is known of one, and its end among the events of a session. Pure."""

from dataclasses import dataclass

from pydantic import ValidationError

from choir_common.lanes import CORE_LANE_PREFIX, is_core
from choir_common.wire.events import CoreStopped, Event, parse_payload
from choir_common.wire.operator import AgentView
from choir_common.wire.rpc import StatusReport


@dataclass(frozen=True, slots=True)
class Job:
    """A core job."""

    agent_id: str
    session_id: str
    name: str
    seen_rev: int
    """A revision of the session's log before the end of the job."""
    job_id: str | None = None
    """None if the job is known by its name only."""
    status: StatusReport | None = None
    """Its lane in the agent's latest heartbeat; None if it has only been started."""


def list_jobs(agent: AgentView, seen_rev: int) -> list[Job]:
    """Return the open core jobs of an agent."""
    if agent.session_id is None:
        return []
    return [
        Job(
            agent_id=agent.agent_id,
            session_id=agent.session_id,
            name=lane.lane.removeprefix(CORE_LANE_PREFIX),
            seen_rev=seen_rev,
            status=lane,
        )
        for lane in agent.lanes
        if is_core(lane.lane)
    ]


def job_result(event: Event, job: Job) -> CoreStopped | None:
    """Return the end of a job if the event is that."""
    if event.type != "core_stopped":
        return None
    try:
        payload = parse_payload(event)
    except ValidationError:
        return None  # of a newer version
    if not isinstance(payload, CoreStopped):
        return None
    is_same = payload.job_name == job.name if job.job_id is None else payload.job_id == job.job_id
    return payload if is_same else None
