"""`/v1/agents`: show, start and stop agents, and send signals to running ones."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request

from choir_common.errors import Conflict, NotFound
from choir_common.wire.operator import (
    AgentView,
    CancelWork,
    CompactMemory,
    InjectText,
    Page,
    StartAgent,
    Told,
)
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal, SignalBody
from choir_control.configuration.current import Configuration
from choir_control.eventlog.store import EventStore
from choir_control.inbox.words import CORE, EDGE, no_job_text, what_happens
from choir_control.operator.body_schema import body_of
from choir_control.rpc.body import read_body
from choir_control.sessions.record import RESTARTED
from choir_control.sessions.roster import Roster
from choir_control.sessions.start import Starter
from choir_control.sessions.stop import Stopper
from choir_control.sessions.tell import Messenger

STOPPED_BY_OPERATOR = "an operator asked for it"


def agent_routes(
    configuration: Configuration, roster: Roster, starter: Starter, stopper: Stopper
) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/agents", tags=["agents"])

    @router.get("")
    async def list_agents() -> Page[AgentView]:
        """List every configured agent."""
        return Page(items=await roster.all())

    @router.get("/{agent_id}")
    async def show_agent(agent_id: str) -> AgentView:
        """Show one agent."""
        return await roster.one(agent_id)

    @router.post("/{agent_id}/start", openapi_extra=body_of(StartAgent))
    async def start_agent(agent_id: str, request: Request) -> AgentView:
        """Start an agent with its default resources, or with those in the body."""
        await starter.start(agent_id, await read_body(request, StartAgent))
        return await roster.one(agent_id)

    @router.post("/{agent_id}/stop")
    async def stop_agent(agent_id: str) -> AgentView:
        """Stop an agent, also one that is no longer configured. Open work waits for its next start.

        Stopping an agent that is already stopped with open work discards that work.
        """
        await roster.must_know(agent_id)
        if not (
            await stopper.stop(agent_id, STOPPED_BY_OPERATOR)
            or await stopper.give_up(agent_id, STOPPED_BY_OPERATOR)
        ):
            raise Conflict(f"{agent_id} is not running.")
        return await roster.one(agent_id)

    @router.post("/{agent_id}/restart")
    async def restart_agent(agent_id: str) -> AgentView:
        """Stop an agent and start it with the same resources; it resumes its open work."""
        configuration.current.agent(agent_id)
        await starter.check_restart(agent_id)  # before the stop: it may be refused
        ended = await stopper.stop(agent_id, RESTARTED)
        if ended is None:
            raise Conflict(
                f"{agent_id} is not running. Start it with `choirctl agent start {agent_id}`."
            )
        await starter.start_as(agent_id, ended.started_with, ended.image)
        return await roster.one(agent_id)

    return router


def signal_routes(roster: Roster, messenger: Messenger, events: EventStore) -> APIRouter:
    """Return the router of the signals to a running agent."""
    router = APIRouter(prefix="/agents", tags=["agents"])

    async def must_have(agent_id: str, job: str) -> None:
        """Raise NotFound when the agent runs and has no open core job of that name."""
        session = await roster.live_of(agent_id)
        # not running: `tell_agent` raises the error for that
        open_jobs = await events.open_jobs(session.session_id) if session else [job]
        if job not in open_jobs:
            raise NotFound(no_job_text(agent_id, job, open_jobs))

    async def tell(
        agent_id: str, body: SignalBody, session_id: str | None = None, job: str | None = None
    ) -> Told:
        await roster.must_know(agent_id)
        if job is not None:
            await must_have(agent_id, job)
        session, seq = await messenger.tell_agent(agent_id, body, session_id)
        return Told(
            agent_id=agent_id,
            session_id=session.session_id,
            signal=seq,
            note=what_happens(body, agent_id, session.status),
        )

    @router.post("/{agent_id}/inject", status_code=202, openapi_extra=body_of(InjectText))
    async def inject(agent_id: str, request: Request) -> Told:
        """Give an agent's edge lane further instructions at its next safe point."""
        said = await read_body(request, InjectText)
        return await tell(agent_id, InjectSignal(text=said.text, sent_at=datetime.now(UTC)))

    @router.post("/{agent_id}/cancel", status_code=202, openapi_extra=body_of(CancelWork))
    async def cancel(agent_id: str, request: Request) -> Told:
        """Cancel a core job by name, or the edge lane's turn; 404 for a job that is not running."""
        job = (await read_body(request, CancelWork)).job
        return await tell(agent_id, CancelSignal(job=job), job=job)

    @router.post("/{agent_id}/compact", status_code=202, openapi_extra=body_of(CompactMemory))
    async def compact(agent_id: str, request: Request) -> Told:
        """Have a lane summarize its older events; 404 for a lane that is not running."""
        asked = await read_body(request, CompactMemory)
        lane = None if asked.lane == EDGE else asked.lane
        job = None if lane is None else lane.removeprefix(CORE)
        return await tell(agent_id, CompactSignal(lane=asked.lane), asked.session_id, job)

    return router
