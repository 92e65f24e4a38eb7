"""Command `choirctl down`: stop the embedded stack of this state directory."""

import asyncio
import contextlib
import signal

import typer
from rich.console import Console
from rich.status import Status

from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.target import Target
from choir_local.home import Home as LocalHome
from choir_local.stack import kill_stack, stop_stack
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.language import tr
from choirctl.output.printing import print_json, stderr_console
from choirctl.output.views import lane_state

STOPPING = _("Stopping…")
LOOK_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(down)


def down(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Stop the Choir that `up` started.

    Waits until everything has stopped. Agents first finish their turns and summarize their sessions, which
    takes 45 s at most. Ctrl-C kills what still runs. Exits 0 if no Choir runs.
    """
    place = find_target(ctx, home)
    console = stderr_console()
    stopped = asyncio.run(_stop(place, console))
    if as_json:
        print_json({"home": str(place.home), "stopped": stopped})
    elif stopped:
        console.print(_("Choir in {home} has stopped.").format(home=place.home))
    else:
        console.print(
            _("No Choir that `choirctl up` started runs in {home}.").format(home=place.home)
        )
        if place.socket.exists():
            console.print(_("If it runs in containers, `docker compose down` stops it."))


async def _stop(place: Target, console: Console) -> bool:
    """Stop the stack and show the agents that still work; return False if no stack runs."""
    loop, local = asyncio.get_running_loop(), LocalHome(place.home)

    def hurry() -> None:
        # a second Ctrl-C has its default effect: it ends this command
        loop.remove_signal_handler(signal.SIGINT)
        console.print(_("Killing the remaining processes."))
        kill_stack(local)

    with console.status(STOPPING) as line:
        loop.add_signal_handler(signal.SIGINT, hurry)
        showing = asyncio.ensure_future(_show_agents(place, line))
        try:
            return await stop_stack(local)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            showing.cancel()


async def _show_agents(place: Target, line: Status) -> None:
    """Show which agents still work, until control no longer responds."""
    # control stops during this loop: that is expected
    with contextlib.suppress(ChoirError):
        while True:
            await asyncio.sleep(LOOK_S)
            async with connect(place, at_once=True) as api:
                running = [agent for agent in await api.agents.list() if agent.state == "running"]
            words = "; ".join(
                f"{agent.agent_id} {', '.join(lane_state(lane) for lane in agent.lanes)}".strip()
                for agent in running
            )
            line.update(
                tr(_("Stopping… {words} (Ctrl-C kills them now)").format(words=words))
                if words
                else tr(STOPPING)
            )
