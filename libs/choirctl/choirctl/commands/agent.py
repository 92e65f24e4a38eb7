"""`choirctl agent ...`; next comes `control_api`. What builds and makes agents has its own modules."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, TypeVar

import typer

from choir_common.errors import BadInput, ChoirError
from choir_common.wire.operator import AgentView, StartAgent, Told
from choirctl.app import add_group
from choirctl.arguments import AgentId
from choirctl.commands.agent_build import build, update, update_all
from choirctl.commands.agent_init import init
from choirctl.control_api import ControlApi, connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import err, out, print_json
from choirctl.views import agent_facts, agent_rows, doing

T = TypeVar("T")
START_S = 120.0  # a container's first start may wait for its image
STOP_S = 400.0  # it finishes what it is at and sums up, five minutes at most (spec 17.2)
LOOK_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "agent",
        ("list", list_agents),
        ("start", start),
        ("stop", stop),
        ("restart", restart),
        ("status", status),
        ("inject", inject),
        ("cancel", cancel),
        ("init", init),
        ("build", build),
        ("update", update),
        ("update-all", update_all),
    )


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
    voice_profile: Annotated[str | None, typer.Option(help="Voice, by name.")] = None,
    git_identity: Annotated[str | None, typer.Option(help="Who it is in git, by name.")] = None,
    notion: Annotated[str | None, typer.Option(help="Notion integration, by name.")] = None,
    email: Annotated[str | None, typer.Option(help="Mail account, by name.")] = None,
    dm: Annotated[str | None, typer.Option(help="DM that speaks to it, by name.")] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start an agent; what is left out comes from its defaults in config.json, "" means none.

    Workspace, git identity, Notion, DM and a mail account that is not shared belong to one agent at a
    time: exits 5 and names the holder when one is taken.
    """
    request = StartAgent(
        workspace=workspace,
        llm=llm,
        dm=dm,
        voice_profile=voice_profile,
        git_identity=git_identity,
        notion=notion,
        email=email,
    )
    view = _ask(find_place(ctx, home, url), lambda api: api.start_agent(agent, request, START_S))
    _tell(view, f"Agent {agent} is {view.state}.", as_json)


def stop(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent in good order; its session is closed.

    It finishes its turn and sums up the session first, and what it is at is shown meanwhile.
    """
    view = _ask(
        find_place(ctx, home, url),
        lambda api: _watch(api, agent, "stops", api.stop_agent(agent, STOP_S)),
    )
    _tell(view, f"Agent {agent} is {view.state}.", as_json)


def restart(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent in good order and start it with the same image and resources.

    What `model set` and `voice set` changed is as it was at its start again.
    """
    view = _ask(
        find_place(ctx, home, url),
        lambda api: _watch(api, agent, "restarts", api.restart_agent(agent, STOP_S + START_S)),
    )
    _tell(view, f"Agent {agent} is {view.state}.", as_json)


def status(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what an agent and its jobs are doing, what it holds, and what its budgets leave."""
    view = _ask(find_place(ctx, home, url), lambda api: api.agent(agent))
    if as_json:
        print_json(view)
    else:
        out().print(agent_facts(view))


def inject(
    ctx: typer.Context,
    agent: AgentId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to tell it.")],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Tell an agent something at its next safe point, while it works."""
    if not text.strip():
        raise BadInput("There is nothing to tell: TEXT is empty.")
    told = _ask(find_place(ctx, home, url), lambda api: api.inject(agent, text))
    _tell_note(told, as_json)


def cancel(
    ctx: typer.Context,
    agent: AgentId,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only this core job.", show_default=False)
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel an agent's turn, or one of its core jobs by name; everything else goes on."""
    told = _ask(find_place(ctx, home, url), lambda api: api.cancel(agent, job))
    _tell_note(told, as_json)


def _tell_note(told: Told, as_json: bool) -> None:
    if as_json:
        print_json(told)
    else:
        err().print(told.note, markup=False)


async def _watch(
    api: ControlApi, agent: str, does: str, request: Coroutine[None, None, AgentView]
) -> AgentView:
    """Wait for an agent's end and show what it is still at."""
    began = time.monotonic()
    with err().status(f"{agent} {does}…") as line:
        stopping = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait((stopping,), timeout=LOOK_S))[0]:
                # a look that fails changes nothing about the stop
                with contextlib.suppress(ChoirError):
                    at = "; ".join(doing(lane) for lane in (await api.agent(agent)).lanes)
                    line.update(f"{agent} {does}, {time.monotonic() - began:.0f} s… {at}")
            return await stopping
        finally:
            stopping.cancel()


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
