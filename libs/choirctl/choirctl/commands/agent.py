"""`choirctl agent list|start|stop|status`; next comes `control_api`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from choir_common.wire.operator import AgentView, StartAgent
from choirctl.control_api import ControlApi, connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import err, out, print_json
from choirctl.views import agent_facts, agent_rows

T = TypeVar("T")
START_S = 120.0  # a container's first start may wait for its image
STOP_S = 60.0  # the agent finishes what it is at before it goes (spec 17.2)

AgentId = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_agents)
    group.command("start")(start)
    group.command("stop")(stop)
    group.command("status")(status)
    app.add_typer(group, name="agent", help="List, start and stop agents.")


def list_agents(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List all agents and their state."""
    agents = _ask(find_place(ctx, home, url), lambda api: api.agents())
    if as_json:
        print_json(agents)
    else:
        out().print(agent_rows(agents))


def start(
    ctx: typer.Context,
    agent: AgentId,
    workspace: Annotated[str | None, typer.Option(help="Workspace, by name.")] = None,
    llm: Annotated[str | None, typer.Option(help="Model, by name.")] = None,
    dm: Annotated[str | None, typer.Option(help="DM that speaks to it, by name.")] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start an agent; what is left out comes from its defaults in config.json."""
    request = StartAgent(workspace=workspace, llm=llm, dm=dm)
    view = _ask(find_place(ctx, home, url), lambda api: api.start_agent(agent, request, START_S))
    _tell(view, f"Agent {agent} is {view.state}.", as_json)


def stop(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent in good order; its session is closed."""
    view = _ask(find_place(ctx, home, url), lambda api: api.stop_agent(agent, STOP_S))
    _tell(view, f"Agent {agent} is {view.state}.", as_json)


def status(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what an agent is doing and what it holds."""
    view = _ask(find_place(ctx, home, url), lambda api: api.agent(agent))
    if as_json:
        print_json(view)
    else:
        out().print(agent_facts(view))


def _ask(place: Place, question: Callable[[ControlApi], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with connect(place) as api:
            return await question(api)

    return asyncio.run(ask())


def _tell(view: AgentView, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        err().print(sentence)
