"""`/v1/agents`, `/v1/models` and `/v1/voices`: show, start, stop and signal agents; their model and voice."""

from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import APIRouter, Request

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.lanes import CORE_LANE_PREFIX, is_edge
from choir_common.wire.config import Config
from choir_common.wire.model_check import ModelTestResult
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
from choir_control.agents.model_tests import ModelTestService
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.record import REASON_RESTART
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.configuration.current import ConfigService
from choir_control.conversations.commands.texts import (
    format_signal_effect,
    format_unknown_job,
)
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.eventlog.store import EventStore

STOPPED_BY_OPERATOR = "stopped by an operator"


def agent_routes(
    *,
    configuration: ConfigService,
    overview: AgentOverview,
    starter: SessionStarter,
    stopper: SessionStopper,
) -> APIRouter:
    """Return the router of the agents."""
    router = ServiceRouter(prefix="/agents", tags=["agents"])
    router.include_router(_lifecycle_routes(configuration, overview, starter, stopper))

    @router.get("")
    async def list_agents() -> Page[AgentView]:
        """List every configured agent."""
        return Page(items=await overview.all())

    @router.get("/{agent_id}")
    async def show_agent(agent_id: str) -> AgentView:
        """Show one agent."""
        return await overview.one(agent_id)

    return router


def _lifecycle_routes(
    configuration: ConfigService,
    overview: AgentOverview,
    starter: SessionStarter,
    stopper: SessionStopper,
) -> APIRouter:
    router = ServiceRouter()

    @router.post("/{agent_id}/start", openapi_extra=openapi_body(StartAgent))
    async def start_agent(agent_id: str, request: Request) -> AgentView:
        """Start an agent with its default resources, or with those in the body."""
        await starter.start(agent_id, await parse_request_body(request, StartAgent))
        return await overview.one(agent_id)

    @router.post("/{agent_id}/stop")
    async def stop_agent(agent_id: str) -> AgentView:
        """Stop an agent, also one that is no longer configured. Open work waits for its next start.

        Stopping an agent that is already stopped with open work discards that work.
        """
        await overview.require_known_agent(agent_id)
        if not (
            await stopper.stop(agent_id, STOPPED_BY_OPERATOR)
            or await stopper.give_up(agent_id, STOPPED_BY_OPERATOR)
        ):
            raise Conflict(_("{agent_id} is not running.").format(agent_id=agent_id))
        return await overview.one(agent_id)

    @router.post("/{agent_id}/restart")
    async def restart_agent(agent_id: str) -> AgentView:
        """Stop an agent and start it with the same resources; it resumes its open work."""
        configuration.current.agent(agent_id)
        await starter.check_restart(agent_id)  # before the stop: it may be refused
        session = await stopper.stop(agent_id, REASON_RESTART)
        if session is None:
            raise Conflict(
                _(
                    "{agent_id} is not running. Start it with `choirctl agent start {agent_id}`."
                ).format(agent_id=agent_id)
            )
        await starter.restart(agent_id, session.initial_bindings, session.image)
        return await overview.one(agent_id)

    return router


class SignalRequests:
    """Sends the signals that operators request, after checking what they name."""

    def __init__(
        self, overview: AgentOverview, signal_sender: SignalSender, events: EventStore
    ) -> None:
        self._overview = overview
        self._signal_sender = signal_sender
        self._events = events

    async def send(
        self,
        agent_id: str,
        body: SignalBody,
        session_id: str | None = None,
        job: str | None = None,
        *,
        dm: str | None = None,
    ) -> SignalQueued:
        """Queue a signal. Raises NotFound for an agent, a conversation or a job that is not there."""
        await self._overview.require_known_agent(agent_id)
        if dm is not None:
            await self._require_conversation(agent_id, dm)
        if job is not None:
            await self._require_open_job(agent_id, job, dm)
        session, seq = await self._signal_sender.send_to_agent(agent_id, body, session_id)
        return SignalQueued(
            agent_id=agent_id,
            session_id=session.session_id,
            signal=seq,
            note=format_signal_effect(body, agent_id, session.status),
        )

    async def _require_open_job(self, agent_id: str, job: str, dm: str | None) -> None:
        session = await self._overview.live_of(agent_id)
        # not running: `send_to_agent` raises the error for that
        open_jobs = await self._events.list_open_jobs(session.session_id, dm) if session else [job]
        if job not in open_jobs:
            raise NotFound(format_unknown_job(agent_id, job, open_jobs))

    async def _require_conversation(self, agent_id: str, dm: str) -> None:
        session = await self._overview.live_of(agent_id)
        served = await self._overview.conversations_of(session) if session else (dm,)
        if dm not in served:
            raise NotFound(
                _("{agent_id} does not talk in {dm} now. Its conversations are: {served}.").format(
                    agent_id=agent_id, dm=dm, served=", ".join(served)
                )
            )


def signal_routes(
    overview: AgentOverview, signal_sender: SignalSender, events: EventStore
) -> APIRouter:
    """Return the router of the signals to a running agent."""
    router = ServiceRouter(prefix="/agents", tags=["agents"])
    send = SignalRequests(overview, signal_sender, events).send

    @router.post("/{agent_id}/inject", status_code=202, openapi_extra=openapi_body(InjectText))
    async def inject(agent_id: str, request: Request) -> SignalQueued:
        """Give an agent further instructions for a conversation, at its next safe point."""
        body = await parse_request_body(request, InjectText)
        signal = InjectSignal(text=body.text, sent_at=datetime.now(UTC), dm=body.dm or "")
        return await send(agent_id, signal, dm=body.dm)

    @router.post("/{agent_id}/cancel", status_code=202, openapi_extra=openapi_body(CancelWork))
    async def cancel(agent_id: str, request: Request) -> SignalQueued:
        """Cancel a core job by name, or the turn of a conversation; 404 for a job that is not running."""
        body = await parse_request_body(request, CancelWork)
        signal = CancelSignal(job=body.job, dm=body.dm or "")
        return await send(agent_id, signal, job=body.job, dm=body.dm)

    @router.post("/{agent_id}/compact", status_code=202, openapi_extra=openapi_body(CompactMemory))
    async def compact(agent_id: str, request: Request) -> SignalQueued:
        """Have a lane summarize its older events; 404 for a lane that is not running."""
        body = await parse_request_body(request, CompactMemory)
        lane = body.lane
        if lane is not None and body.dm is not None:
            raise InvalidRequest(_("Name a lane or a conversation (dm), not both."))
        job = None if lane is None or is_edge(lane) else lane.removeprefix(CORE_LANE_PREFIX)
        signal = CompactSignal(lane=lane, dm=body.dm or "")
        return await send(agent_id, signal, body.session_id, job, dm=body.dm)

    return router


def choice_routes(
    configuration: ConfigService, overrides: SessionOverrides, overview: AgentOverview
) -> APIRouter:
    """Return the router of the models and voices."""
    router = ServiceRouter(tags=["agents"])

    @router.get("/models")
    async def list_models() -> Page[ModelView]:
        """List the language models and the text-to-speech providers."""
        return Page(items=_models(configuration.current.config, await overview.all()))

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
        return await overrides.choices(agent_id)

    @router.put("/agents/{agent_id}/model", openapi_extra=openapi_body(SetModel))
    async def set_model(agent_id: str, request: Request) -> AgentModelAndVoice:
        """Switch a running agent to another model from its next call on, until it is restarted."""
        return await overrides.set_model(
            agent_id, (await parse_request_body(request, SetModel)).llm
        )

    @router.get("/agents/{agent_id}/voice")
    async def show_voice(agent_id: str) -> AgentModelAndVoice:
        """Show the voice and model that an agent uses."""
        return await overrides.choices(agent_id)

    @router.put("/agents/{agent_id}/voice", openapi_extra=openapi_body(SetVoice))
    async def set_voice(agent_id: str, request: Request) -> AgentModelAndVoice:
        """Switch a running agent to another voice from now on, until it is restarted."""
        return await overrides.set_voice(
            agent_id, (await parse_request_body(request, SetVoice)).voice_profile
        )

    return router


def model_test_routes(model_tests: ModelTestService) -> APIRouter:
    """Return the router of the test calls."""
    router = ServiceRouter(prefix="/models", tags=["agents"])

    @router.post("/{name}/test")
    async def test_model(name: str) -> ModelTestResult:
        """Call a language model once, with a tool; 409 while another test of it is running."""
        return await model_tests.test(name)

    return router


def _models(config: Config, agents: Sequence[AgentView]) -> list[ModelView]:
    in_use = (lane.model for agent in agents for lane in agent.lanes if lane.model is not None)
    windows = {model.name: model.context_window for model in in_use}
    models = [
        ModelView(
            name=name,
            kind="llm",
            provider=m.provider,
            model=m.model,
            endpoint=m.endpoint,
            context_window=windows.get(name) or m.context_window,
        )
        for name, m in sorted(config.models.items())
    ]
    speakers = [
        ModelView(name=name, kind="tts", provider=t.provider, model=t.model_id, endpoint=t.endpoint)
        for name, t in sorted(config.tts.items())
    ]
    transcribers = [
        ModelView(
            name=name, kind="transcription", provider="openai", model=t.model, endpoint=t.endpoint
        )
        for name, t in sorted(config.transcription.items())
    ]
    return models + speakers + transcribers
