"""Commands `choirctl model list|test|get|set`."""

import asyncio

import typer

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.model_check import ModelTestResult
from choir_common.wire.operations import AgentModelAndVoice, ModelView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, ModelName, TestedModel
from choirctl.output.printing import print_json, print_rows, stderr_console, stdout_console
from choirctl.output.views import choice_facts, model_rows, model_test_rows

TEST_S = 200.0
"""A server may load the model first."""


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "model",
        ("list", list_models),
        ("test", test_model),
        ("get", get),
        ("set", set_model),
    )


def list_models(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the language models and text-to-speech providers."""
    models = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(models)
    else:
        print_rows(model_rows(models), _("No model is configured."))


def test_model(
    ctx: typer.Context,
    model: TestedModel,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Call a model once, and say what is wrong if it does not answer.

    Choir sends one short request with a tool, which may cost a fraction of a cent. Exits 1 if agents cannot
    work with the model.
    """
    result = asyncio.run(_test(find_target(ctx, home, url), model))
    if as_json:
        print_json(result)
    else:
        print_rows(model_test_rows(result))
    if result.outcome == "fail":
        raise typer.Exit(ChoirError.exit_code)


def get(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the model and the voice of an agent."""
    choices = asyncio.run(_get(find_target(ctx, home, url), agent))
    if as_json:
        print_json(choices)
    else:
        stdout_console().print(choice_facts(choices))


def set_model(
    ctx: typer.Context,
    agent: AgentId,
    llm: ModelName,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Switch a running agent to another model.

    It is used from the next model call until the agent is restarted. Exits 5 if the agent does not run.
    """
    if not llm:
        raise InvalidRequest(_("--llm needs the name of a model; `choirctl model list` has them."))
    choices = asyncio.run(_set(find_target(ctx, home, url), agent, llm))
    if as_json:
        print_json(choices)
    else:
        stderr_console().print(
            _("{agent} uses {llm} until its next restart.").format(agent=agent, llm=choices.llm),
            markup=False,
        )


async def _list(place: Target) -> list[ModelView]:
    async with connect(place) as api:
        return await api.models()


async def _test(place: Target, name: str) -> ModelTestResult:
    async with connect(place) as api:
        return await api.test_model(name, TEST_S)


async def _get(place: Target, agent: str) -> AgentModelAndVoice:
    async with connect(place) as api:
        return await api.agent_choices(agent)


async def _set(place: Target, agent: str, llm: str) -> AgentModelAndVoice:
    async with connect(place) as api:
        return await api.set_model(agent, llm)
