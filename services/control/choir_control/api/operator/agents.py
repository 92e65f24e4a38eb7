"""`/v1/agents`: show, start and stop agents, and send signals to running ones.

`/v1/models`, `/v1/voices`, and the model and voice of each agent.
"""

from datetime import UTC, datetime

from fastapi import APIRouter, Request

from choir_common.errors import Conflict, NotFound
from choir_common.wire.config import Config
from choir_common.wire.operations import (
    AgentModelAndVoice,
    ModelView,
    SetModel,
    SetVoice,
    VoiceView,
)
from choir_common.wire.operator import (
    AgentView,
    CancelWork,
    CompactMemory,
    InjectText,
    Page,
    SignalQueued,
    StartAgent,
)
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal, SignalBody
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.record import REASON_RESTART
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.api.body import openapi_body, parse_request_body
from choir_control.configuration.current import ConfigService
from choir_control.conversations.commands.texts import (
    CORE,
    EDGE,
    format_signal_effect,
    format_unknown_job,
)
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.eventlog.store import EventStore

STOPPED_BY_OPERATOR = "an operator asked for it"


def agent_routes(
    configuration: ConfigService,
    roster: AgentOverview,
    starter: SessionStarter,
    stopper: SessionStopper,
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

    @router.post("/{agent_id}/start", openapi_extra=openapi_body(StartAgent))
    async def start_agent(agent_id: str, request: Request) -> AgentView:
        """Start an agent with its default resources, or with those in the body."""
        await starter.start(agent_id, await parse_request_body(request, StartAgent))
        return await roster.one(agent_id)

    @router.post("/{agent_id}/stop")
    async def stop_agent(agent_id: str) -> AgentView:
        """Stop an agent, also one that is no longer configured. Open work waits for its next start.

        Stopping an agent that is already stopped with open work discards that work.
        """
        await roster.require_known_agent(agent_id)
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
        ended = await stopper.stop(agent_id, REASON_RESTART)
        if ended is None:
            raise Conflict(
                f"{agent_id} is not running. Start it with `choirctl agent start {agent_id}`."
            )
        await starter.restart(agent_id, ended.initial_bindings, ended.image)
        return await roster.one(agent_id)

    return router


def signal_routes(
    roster: AgentOverview, signal_sender: SignalSender, events: EventStore
) -> APIRouter:
    """Return the router of the signals to a running agent."""
    router = APIRouter(prefix="/agents", tags=["agents"])

    async def must_have(agent_id: str, job: str) -> None:
        """Raise NotFound when the agent runs and has no open core job of that name."""
        session = await roster.live_of(agent_id)
        # not running: `tell_agent` raises the error for that
        open_jobs = await events.list_open_jobs(session.session_id) if session else [job]
        if job not in open_jobs:
            raise NotFound(format_unknown_job(agent_id, job, open_jobs))

    async def tell(
        agent_id: str, body: SignalBody, session_id: str | None = None, job: str | None = None
    ) -> SignalQueued:
        await roster.require_known_agent(agent_id)
        if job is not None:
            await must_have(agent_id, job)
        session, seq = await signal_sender.send_to_agent(agent_id, body, session_id)
        return SignalQueued(
            agent_id=agent_id,
            session_id=session.session_id,
            signal=seq,
            note=format_signal_effect(body, agent_id, session.status),
        )

    @router.post("/{agent_id}/inject", status_code=202, openapi_extra=openapi_body(InjectText))
    async def inject(agent_id: str, request: Request) -> SignalQueued:
        """Give an agent's edge lane further instructions at its next safe point."""
        said = await parse_request_body(request, InjectText)
        return await tell(agent_id, InjectSignal(text=said.text, sent_at=datetime.now(UTC)))

    @router.post("/{agent_id}/cancel", status_code=202, openapi_extra=openapi_body(CancelWork))
    async def cancel(agent_id: str, request: Request) -> SignalQueued:
        """Cancel a core job by name, or the edge lane's turn; 404 for a job that is not running."""
        job = (await parse_request_body(request, CancelWork)).job
        return await tell(agent_id, CancelSignal(job=job), job=job)

    @router.post("/{agent_id}/compact", status_code=202, openapi_extra=openapi_body(CompactMemory))
    async def compact(agent_id: str, request: Request) -> SignalQueued:
        """Have a lane summarize its older events; 404 for a lane that is not running."""
        asked = await parse_request_body(request, CompactMemory)
        lane = None if asked.lane == EDGE else asked.lane
        job = None if lane is None else lane.removeprefix(CORE)
        return await tell(agent_id, CompactSignal(lane=asked.lane), asked.session_id, job)

    return router


def choice_routes(configuration: ConfigService, changes: SessionOverrides) -> APIRouter:
    """Return the router."""
    router = APIRouter(tags=["agents"])

    @router.get("/models")
    async def list_models() -> Page[ModelView]:
        """List the language models and the text-to-speech providers."""
        return Page(items=_models(configuration.current.config))

    @router.get("/voices")
    async def list_voices() -> Page[VoiceView]:
        """List the voice profiles."""
        return Page(
            items=[
                VoiceView(name=name, tts=v.tts, voice_id=v.voice_id, output_format=v.output_format)
                for name, v in sorted(configuration.current.config.voice_profiles.items())
            ]
        )

    @router.get("/agents/{agent_id}/model")
    async def show_model(agent_id: str) -> AgentModelAndVoice:
        """Show the model and voice that an agent uses."""
        return await changes.choices(agent_id)

    @router.put("/agents/{agent_id}/model", openapi_extra=openapi_body(SetModel))
    async def set_model(agent_id: str, request: Request) -> AgentModelAndVoice:
        """Switch a running agent to another model from its next call on, until it is restarted."""
        return await changes.set_model(agent_id, (await parse_request_body(request, SetModel)).llm)

    @router.get("/agents/{agent_id}/voice")
    async def show_voice(agent_id: str) -> AgentModelAndVoice:
        """Show the voice and model that an agent uses."""
        return await changes.choices(agent_id)

    @router.put("/agents/{agent_id}/voice", openapi_extra=openapi_body(SetVoice))
    async def set_voice(agent_id: str, request: Request) -> AgentModelAndVoice:
        """Switch a running agent to another voice from now on, until it is restarted."""
        return await changes.set_voice(
            agent_id, (await parse_request_body(request, SetVoice)).voice_profile
        )

    return router


def _models(config: Config) -> list[ModelView]:
    models = [
        ModelView(name=name, kind="llm", provider=m.provider, model=m.model, endpoint=m.endpoint)
        for name, m in sorted(config.models.items())
    ]
    speakers = [
        ModelView(name=name, kind="tts", provider=t.provider, model=t.model_id, endpoint=t.endpoint)
        for name, t in sorted(config.tts.items())
    ]
    return models + speakers
