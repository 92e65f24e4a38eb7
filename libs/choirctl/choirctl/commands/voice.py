"""Commands `choirctl voice list|get|set`."""

import asyncio

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operations import AgentModelAndVoice, VoiceView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, VoiceName
from choirctl.output.printing import print_json, print_rows, stderr_console, stdout_console
from choirctl.output.views import choice_facts, voice_rows


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "voice",
        ("list", list_voices),
        ("get", get),
        ("set", set_voice),
    )


def list_voices(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the voice profiles of config.json."""
    voices = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(voices)
    else:
        print_rows(voice_rows(voices), _("No voice is configured."))


def get(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the voice and the model of an agent."""
    choices = asyncio.run(_get(find_target(ctx, home, url), agent))
    if as_json:
        print_json(choices)
    else:
        stdout_console().print(choice_facts(choices))


def set_voice(
    ctx: typer.Context,
    agent: AgentId,
    voice: VoiceName,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Switch a running agent to another voice.

    It is used from the next spoken message until the agent is restarted. Exits 5 if the agent does not run.
    """
    if not voice:
        raise InvalidRequest(_("VOICE is empty; `choirctl voice list` has the names."))
    choices = asyncio.run(_set(find_target(ctx, home, url), agent, voice))
    if as_json:
        print_json(choices)
    else:
        sentence = _("{agent} uses voice {voice_profile} until its next restart.").format(
            agent=agent, voice_profile=choices.voice_profile
        )
        stderr_console().print(sentence, markup=False)


async def _list(place: Target) -> list[VoiceView]:
    async with connect(place) as api:
        return await api.voices()


async def _get(place: Target, agent: str) -> AgentModelAndVoice:
    async with connect(place) as api:
        return await api.agent_choices(agent)


async def _set(place: Target, agent: str, voice: str) -> AgentModelAndVoice:
    async with connect(place) as api:
        return await api.set_voice(agent, voice)
