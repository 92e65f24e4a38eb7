"""Commands `choirctl mcp list|add|test|remove`, and the group; see docs/mcp.md."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError

from choir_common.errors import ChoirError, Conflict, DeadlineExceeded, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.mcp_config import McpConfig, McpServerConfig
from choir_common.wire.operator import AgentView
from choir_common.wire.rpc import McpServerStatus
from choir_common.wire.validation_messages import error_messages
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.commands.mcp_import import import_servers
from choirctl.commands.mcp_login import log_in, log_out
from choirctl.commands.mcp_serve import serve_agent
from choirctl.commands.mcp_settings import (
    ACTIVATE,
    SERVERS,
    Agents,
    only_agent,
    raw_servers,
    read_config,
)
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, stderr_console, table
from choirctl.output.state_words import state_text
from choirctl.start.config_set import set_value

POLL_S = 0.5
NOTHING = _("No MCP servers; `choirctl mcp add NAME -- COMMAND` adds one.")

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server, by name.")]
Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- COMMAND…]", help="The program and its arguments.", show_default=False
    ),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option("--secret", help="VARIABLE=SECRET, a stored secret; for --url the name alone."),
]
Variables = Annotated[
    list[str] | None, typer.Option("--env", help="VARIABLE=VALUE, which is no secret.")
]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", help="A host that the command may reach; no other.")
]


class ServerEntry(McpServerStatus):
    """A server, with the agent that runs it."""

    agent: str


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "mcp",
        ("list", list_servers),
        ("add", add_server),
        ("import", import_servers),
        ("test", test_server),
        ("remove", remove_server),
        ("login", log_in),
        ("logout", log_out),
        ("serve", serve_agent),
    )


def list_servers(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List running agents' MCP servers, and what keeps one from working."""
    agents = asyncio.run(_agents(find_target(ctx, home, url)))
    servers = [(agent.agent_id, status) for agent in agents for status in _statuses(agent)]
    if as_json:
        print_json([_entry(agent, status) for agent, status in servers])
        return
    rows = table(_("SERVER"), _("AGENT"), _("STATE"), _("TOOLS"), _("NOTE"))
    for agent, status in servers:
        count = str(len(status.tools))
        note = "; ".join(filter(None, (server_text(status.detail), *status.progress)))
        rows.add_row(status.name, agent, state_text(status.state), count, escape(note))
    print_rows(rows, NOTHING)


def add_server(
    ctx: typer.Context,
    name: ServerName,
    command: Command = None,
    server_url: Annotated[
        str | None,
        typer.Option("--url", help="The address of a server that speaks streamable HTTP."),
    ] = None,
    agent: Agents = None,
    secret: Secrets = None,
    env: Variables = None,
    host: Hosts = None,
    workspace: Annotated[
        bool, typer.Option("--workspace", help="Let the command use the agent's workspace.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add an MCP server to config.json; Choir need not run.

    After `config load` and `config apply` the agent starts it, and asks you about its tools: nothing of it is
    offered before your yes.
    """
    file = find_target(ctx, home).home / "config.json"
    config = read_config(file)
    if name in config.mcp.servers:
        raise Conflict(
            _("{servers}.{name} exists; remove it first, or choose another name.").format(
                servers=SERVERS, name=name
            )
        )
    entry: dict[str, JsonValue] = {"agents": [*(agent or only_agent(config))]}
    entry |= {"url": server_url} if server_url else {"command": [*(command or ())]}
    if secret and server_url:
        entry["secret"] = secret[0]
    elif secret:
        entry["secrets"] = _pairs("--secret", secret)
    if env:
        entry["environment"] = _pairs("--env", env)
    if host:
        entry["hosts"] = [*host]
    if workspace:
        entry["workspace"] = True
    _write(file, {**raw_servers(file), name: entry}, name)
    if as_json:
        print_json({"file": str(file), "name": name, "server": entry})
        return
    text = _("Added {servers}.{name} to {file}. {activate}")
    _tell(text.format(servers=SERVERS, name=name, file=file, activate=ACTIVATE))


def _tell(text: str) -> None:
    stderr_console().print(text, highlight=False)


def test_server(
    ctx: typer.Context,
    name: ServerName,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait until it is ready.")
    ] = 60.0,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a server is ready, and show its tools.

    It is the server of the running agents. Exits 1 if it cannot be started or its tools were refused, 6 if
    it is not ready in time.
    """
    statuses = asyncio.run(_wait_for(find_target(ctx, home, url), name, wait_s))
    if as_json:
        print_json([_entry(agent, status) for agent, status in statuses])
    else:
        rows = table(_("AGENT"), _("STATE"), _("TOOL"), _("NOTE"))
        for agent, status in statuses:
            for tool in status.tools or ("",):
                rows.add_row(
                    agent,
                    state_text(status.state),
                    escape(tool),
                    escape(server_text(status.detail)),
                )
        print_rows(rows, NOTHING)
    for agent, status in statuses:
        if status.state in ("refused", "failed", "restarting"):
            raise ChoirError(
                _("{name} does not work for {agent}: {detail}").format(
                    name=name, agent=agent, detail=server_text(status.detail)
                )
            )
        if status.state != "ready":
            raise DeadlineExceeded(
                _("{name} is not ready for {agent}: {detail}").format(
                    name=name,
                    agent=agent,
                    detail=server_text(status.detail) or state_text(status.state),
                )
            )


def remove_server(
    ctx: typer.Context, name: ServerName, home: Home = None, as_json: AsJson = False
) -> None:
    """Remove an MCP server from config.json; Choir need not run."""
    file = find_target(ctx, home).home / "config.json"
    servers = raw_servers(file)
    if name not in servers:
        raise NotFound(
            _("There is no {servers}.{name} in {file}.").format(
                servers=SERVERS, name=name, file=file
            )
        )
    _write(file, {key: entry for key, entry in servers.items() if key != name}, name)
    if as_json:
        print_json({"file": str(file), "name": name})
        return
    stderr_console().print(
        _("Removed {servers}.{name} from {file}. {activate}").format(
            servers=SERVERS, name=name, file=file, activate=ACTIVATE
        ),
        highlight=False,
    )


def _entry(agent: str, status: McpServerStatus) -> ServerEntry:
    return ServerEntry(agent=agent, **dict(status))


def _write(file: Path, servers: dict[str, JsonValue], name: str) -> None:
    try:
        McpConfig.model_validate_json(json.dumps({"servers": servers}))
        if name in servers:
            McpServerConfig.model_validate_json(json.dumps(servers[name]))
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, name)[:3])) from None
    set_value(file, SERVERS, servers)


def _pairs(option: str, words: list[str]) -> JsonValue:
    pairs = [word.partition("=") for word in words]
    if not all(name and value for name, _, value in pairs):
        raise InvalidRequest(_("{option} is NAME=VALUE.").format(option=option))
    return {name: value for name, _, value in pairs}


async def _agents(place: Target) -> list[AgentView]:
    async with connect(place) as api:
        return [*await api.agents.list()]


def _statuses(agent: AgentView) -> list[McpServerStatus]:
    return [status for lane in agent.lanes for status in lane.mcp_servers]


async def _wait_for(place: Target, name: str, wait_s: float) -> list[tuple[str, McpServerStatus]]:
    """Return the states of a server by agent, once no agent starts it or waits for a yes to its tools."""
    deadline = time.monotonic() + wait_s
    has_told = False
    while True:
        agents = await _agents(place)
        statuses = [(a.agent_id, s) for a in agents for s in _statuses(a) if s.name == name]
        states = {status.state for _, status in statuses}
        if statuses and not states & {"starting", "waiting"}:
            return statuses
        if "waiting" in states and not has_told:
            detail = next(status.detail for _, status in statuses if status.state == "waiting")
            stderr_console().print(
                _("Waiting: {detail}").format(detail=server_text(detail)),
                highlight=False,
                markup=False,
            )
            has_told = True
        if time.monotonic() >= deadline:
            if statuses:
                return statuses
            raise NotFound(
                _(
                    "No running agent has the MCP server {name!r}. `choirctl config diff` shows "
                    "whether it is active."
                ).format(name=name)
            )
        await asyncio.sleep(POLL_S)
