"""`/v1/models`, `/v1/voices`, and the model and voice of each agent."""

from fastapi import APIRouter, Request

from choir_common.wire.choices import AgentChoices, ModelView, SetModel, SetVoice, VoiceView
from choir_common.wire.config import Config
from choir_common.wire.operator import Page
from choir_control.configuration.current import Configuration
from choir_control.operator.body_schema import body_of
from choir_control.rpc.body import read_body
from choir_control.sessions.change import Changes


def choice_routes(configuration: Configuration, changes: Changes) -> APIRouter:
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
    async def show_model(agent_id: str) -> AgentChoices:
        """Show the model and voice that an agent uses."""
        return await changes.choices(agent_id)

    @router.put("/agents/{agent_id}/model", openapi_extra=body_of(SetModel))
    async def set_model(agent_id: str, request: Request) -> AgentChoices:
        """Switch a running agent to another model from its next call on, until it is restarted."""
        return await changes.set_model(agent_id, (await read_body(request, SetModel)).llm)

    @router.get("/agents/{agent_id}/voice")
    async def show_voice(agent_id: str) -> AgentChoices:
        """Show the voice and model that an agent uses."""
        return await changes.choices(agent_id)

    @router.put("/agents/{agent_id}/voice", openapi_extra=body_of(SetVoice))
    async def set_voice(agent_id: str, request: Request) -> AgentChoices:
        """Switch a running agent to another voice from now on, until it is restarted."""
        return await changes.set_voice(agent_id, (await read_body(request, SetVoice)).voice_profile)

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
