"""Command `choirctl mcp serve`; see docs/mcp-server.md."""

import asyncio
import contextlib
import sys
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import read_env
from choirctl.api.target import Home, Url, find_target
from choirctl.output.terminal import unwrap_stream

TOKEN_VARIABLE = "CHOIR_CLIENT_TOKEN"  # noqa: S105 - a name, not a token


def serve_agent(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent, by name.")],
    home: Home = None,
    url: Url = None,
) -> None:
    """Offer an agent's tools to another program over stdio.

    For programs that start MCP servers as commands. CHOIR_CLIENT_TOKEN has the token that `choirctl client
    add` printed. Programs that speak streamable HTTP need no command: they use the address.
    """
    token = read_env(TOKEN_VARIABLE)
    if token is None:
        raise InvalidRequest(
            _(
                "{token_variable} is not set. `choirctl client add NAME --agent {agent}` prints "
                "a token for it."
            ).format(token_variable=TOKEN_VARIABLE, agent=agent)
        )
    # Late: the SDK takes a second, which the other commands of this group do not need.
    from choirctl.api.mcp_bridge import serve_stdio  # noqa: PLC0415

    place = find_target(ctx, home, url)
    # a program reads the output, not a terminal: hidden characters stay as they are
    with contextlib.redirect_stdout(unwrap_stream(sys.stdout)):
        asyncio.run(serve_stdio(place, agent, token))
