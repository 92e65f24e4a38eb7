"""Commands `choirctl agent ...`; those that build, create and delete agents have modules of their own."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, TypeVar

import typer

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operator import AgentView, SignalQueued, StartAgent
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, ConversationName, OptionalJobName, config_name_option
from choirctl.commands.agent_build import build, update, update_all
from choirctl.commands.agent_delete import delete
from choirctl.commands.agent_init import init
from choirctl.commands.agent_job import start_job
from choirctl.output.language import server_text
from choirctl.output.printing import print_json, print_rows, stderr_console, stdout_console
from choirctl.output.state_words import state_text
from choirctl.output.views import agent_facts, agent_rows, lane_state

T = TypeVar("T")
START_S = 120.0  # a container's first start may wait for its image
STOP_S = 400.0  # an agent finishes its turn and summarizes its session, in five minutes at most
POLL_INTERVAL_S = 1.0


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
        ("start-job", start_job),
        ("init", init),
        ("delete", delete),
        ("build", build),
        ("update", update),
        ("update-all", update_all),
    )


def list_agents(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List all agents and their state."""
    agents = _call(find_target(ctx, home, url), lambda api: api.agents.list())
    if as_json:
        print_json(agents)
    else:
        print_rows(
            agent_rows(agents), _("No agent is configured; `choirctl agent init NAME` adds one.")
        )


def start(
    ctx: typer.Context,
    agent: AgentId,
    workspace: Annotated[
        str | None, config_name_option("--workspace", "Workspace, by name.", "workspaces")
    ] = None,
    llm: Annotated[str | None, config_name_option("--llm", "Model, by name.", "models")] = None,
    voice_profile: Annotated[
        str | None, config_name_option("--voice-profile", "Voice, by name.", "voice_profiles")
    ] = None,
    git_identity: Annotated[
        str | None,
        config_name_option("--git-identity", "Git identity, by name.", "git_identities"),
    ] = None,
    notion: Annotated[
        str | None,
        config_name_option("--notion", "Notion integration, by name.", "notion_integrations"),
    ] = None,
    email: Annotated[
        str | None, config_name_option("--email", "Mail account, by name.", "email_accounts")
    ] = None,
    dm: Annotated[
        str | None, config_name_option("--dm", "DM of the agent, by name.", "dms")
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start an agent, with its defaults or the given resources.

    Options that are left out come from config.json; "" means none.

    Workspace, git identity, Notion, DM and a mail account that is not shared belong to one agent at a
    time: exits 5 and names the other agent if one is taken.
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
    view = _call(
        find_target(ctx, home, url), lambda api: api.agents.start(agent, request, timeout_s=START_S)
    )
    _print_state(view, as_json)


def stop(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent gracefully; its session is closed.

    The agent first finishes its turn (15 s at most) and summarizes the session; its progress is shown. Work
    that takes longer stays open, and the next start continues it; a second stop abandons it.
    """
    view = _call(
        find_target(ctx, home, url),
        lambda api: _show_until_done(
            api, agent, _("{agent} stops"), api.agents.stop(agent, timeout_s=STOP_S)
        ),
    )
    _print_state(view, as_json)


def restart(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Stop an agent gracefully and start it again.

    It keeps its image and resources. Changes made by `model set` and `voice set` are reverted.
    """
    view = _call(
        find_target(ctx, home, url),
        lambda api: _show_until_done(
            api, agent, _("{agent} restarts"), api.agents.restart(agent, timeout_s=STOP_S + START_S)
        ),
    )
    _print_state(view, as_json)


def status(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show an agent's state, resources, jobs and budgets."""
    view, settings = _call(find_target(ctx, home, url), lambda api: _read_status(api, agent))
    if as_json:
        print_json(view)
    else:
        stdout_console().print(agent_facts(view, settings))


def inject(
    ctx: typer.Context,
    agent: AgentId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The instructions.")],
    dm: ConversationName = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send an agent instructions while it works.

    It reads them at its next safe point.
    """
    if not text.strip():
        raise InvalidRequest(_("TEXT is empty."))
    queued_signal = _call(find_target(ctx, home, url), lambda api: api.jobs.inject(agent, text, dm))
    _tell_note(queued_signal, as_json)


def cancel(
    ctx: typer.Context,
    agent: AgentId,
    job: OptionalJobName = None,
    dm: ConversationName = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel an agent's turn, or one of its core jobs.

    Everything else continues.
    """
    queued_signal = _call(find_target(ctx, home, url), lambda api: api.jobs.cancel(agent, job, dm))
    _tell_note(queued_signal, as_json)


def _tell_note(queued_signal: SignalQueued, as_json: bool) -> None:
    if as_json:
        print_json(queued_signal)
    else:
        stderr_console().print(server_text(queued_signal.note), markup=False)


async def _read_status(api: ControlClient, agent: str) -> tuple[AgentView, str]:
    """Return an agent, and which configuration version it has applied."""
    view = await api.agents.get(agent)
    if view.session_id is None:
        return view, ""
    report = await api.config.report()
    part = next((part for part in report.agents if part.name == agent), None)
    if part is None:
        return view, ""
    detail = f": {server_text(part.detail)}" if part.detail else ""
    return view, _("version {config_version}, {state}{detail}").format(
        config_version=view.config_version or "-", state=state_text(part.state), detail=detail
    )


async def _show_until_done(
    api: ControlClient, agent: str, does: str, request: Coroutine[None, None, AgentView]
) -> AgentView:
    """Wait for a stop or restart request and show what the agent still does; `does` says which."""
    started_at = time.monotonic()
    with stderr_console().status(f"{does.format(agent=agent)}…") as line:
        stopping = asyncio.ensure_future(request)
        try:
            while not (await asyncio.wait((stopping,), timeout=POLL_INTERVAL_S))[0]:
                # a failed status query does not affect the stop
                with contextlib.suppress(ChoirError):
                    at = "; ".join(lane_state(lane) for lane in (await api.agents.get(agent)).lanes)
                    seconds = time.monotonic() - started_at
                    line.update(f"{does.format(agent=agent)}, {seconds:.0f} s… {at}")
            return await stopping
        except asyncio.CancelledError:
            stderr_console().print(
                _("It continues in the background; see `choirctl agent status {agent}`.").format(
                    agent=agent
                )
            )
            raise
        finally:
            stopping.cancel()


def _call(place: Target, question: Callable[[ControlClient], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with connect(place) as api:
            return await question(api)

    return asyncio.run(ask())


def _print_state(view: AgentView, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    sentence = _("Agent {agent} is {state}.")
    stderr_console().print(sentence.format(agent=view.agent_id, state=state_text(view.state)))
