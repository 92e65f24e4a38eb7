"""Commands `choirctl harness list|test`, and the group; see docs/harnesses.md."""

import asyncio
import time
from typing import Annotated

import typer

from choir_common.errors import ChoirError, DeadlineExceeded, NotFound
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.rpc import HarnessStatus
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, table
from choirctl.output.state_words import state_text

POLL_S = 0.5
NOTHING = _("No harnesses; docs/harnesses.md tells how to add one to config.json.")

HarnessArgument = Annotated[str, typer.Argument(metavar="NAME", help="The harness, by name.")]


class HarnessEntry(HarnessStatus):
    """A harness, with the agent that tried it."""

    agent: str


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "harness", ("list", list_harnesses), ("test", test_harness))


def list_harnesses(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List running agents' harnesses, and what keeps one from working."""
    _print(asyncio.run(_entries(find_target(ctx, home, url))), as_json=as_json)


def test_harness(
    ctx: typer.Context,
    name: HarnessArgument,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait until it was tried.")
    ] = 60.0,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a harness starts, and what it can do.

    Each running agent starts a harness confined, makes the handshake and ends it: at its own start, and when
    `config apply` changes the harness. Exits 1 if that failed, 6 if it has not happened in time.
    """
    entries = asyncio.run(_wait_for(find_target(ctx, home, url), name, wait_s))
    _print(entries, as_json=as_json)
    for entry in entries:
        if entry.state == "failed":
            raise ChoirError(
                _("{name} does not work for {agent}: {detail}").format(
                    name=name, agent=entry.agent, detail=server_text(entry.detail)
                )
            )
        if entry.state == "starting":
            raise DeadlineExceeded(
                _("{name} was not tried by {agent} yet.").format(name=name, agent=entry.agent)
            )


def _print(entries: list[HarnessEntry], *, as_json: bool) -> None:
    if as_json:
        print_json(entries)
        return
    rows = table(_("HARNESS"), _("AGENT"), _("STATE"), _("PROTOCOL"), _("CAPABILITIES"), _("NOTE"))
    for entry in entries:
        rows.add_row(
            entry.name,
            entry.agent,
            state_text(entry.state),
            escape(f"{entry.protocol} {entry.protocol_version}".strip()),
            escape(", ".join(entry.capabilities)),
            escape(server_text(entry.detail) or entry.about),
        )
    print_rows(rows, NOTHING)


async def _entries(place: Target) -> list[HarnessEntry]:
    async with connect(place) as api:
        agents = await api.agents.list()
    return [
        HarnessEntry(agent=agent.agent_id, **dict(status))
        for agent in agents
        for lane in agent.lanes
        for status in lane.harnesses
    ]


async def _wait_for(place: Target, name: str, wait_s: float) -> list[HarnessEntry]:
    """Return the states of a harness by agent, once every agent has tried it."""
    deadline = time.monotonic() + wait_s
    while True:
        entries = [entry for entry in await _entries(place) if entry.name == name]
        if entries and all(entry.state != "starting" for entry in entries):
            return entries
        if time.monotonic() >= deadline:
            if entries:
                return entries
            raise NotFound(
                _(
                    "No running agent has the harness {name!r}. `choirctl config diff` shows whether "
                    "it is active."
                ).format(name=name)
            )
        await asyncio.sleep(POLL_S)
