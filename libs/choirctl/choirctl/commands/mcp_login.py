"""Commands `choirctl mcp login|logout`: tokens for MCP servers by URL (OAuth); see docs/mcp.md."""

import asyncio
import webbrowser
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from choir_common.errors import ChoirError, Conflict, InvalidRequest, NotFound
from choir_common.escape_text import spell_uncertain
from choir_common.i18n import _
from choir_common.mcp_login import McpLogin, login_secret, read_login
from choir_common.secret_file import edit_secret_file
from choir_common.wire.mcp_config import McpServerConfig, oauth_token_secret
from choirctl.api.oauth_redirect import (
    Redirect,
    RedirectServer,
    read_redirect,
    running_redirect_server,
)
from choirctl.api.target import AsJson, Home, find_target
from choirctl.commands.mcp_settings import SERVERS, raw_servers, read_config
from choirctl.output.language import tr
from choirctl.output.printing import print_json, stderr_console
from choirctl.start.config_set import set_value

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server, by name.")]


def log_in(
    ctx: typer.Context,
    name: ServerName,
    paste: Annotated[
        bool,
        typer.Option("--paste", help="Ask for the address to which the browser was sent."),
    ] = False,
    opens: Annotated[
        bool, typer.Option("--open", help="Open the address in the browser of this machine.")
    ] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", min=1, help="Seconds to wait for the browser.")
    ] = 600.0,
    private_host: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST:PORT of an authorization server at a private address.", metavar="HOST:PORT"
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Log in at an MCP server by URL, with a browser.

    Prints the address to open. The browser comes back to this machine. If it runs on another one, use
    --paste: the page that it cannot open has the address to paste. The token is stored as a secret for this
    server only, and renewed.
    """
    directory = find_target(ctx, home).home
    server = _server(directory, name)
    url = str(server.url)
    browser = _Browser(paste=paste, opens=opens, wait_s=wait_s)
    asyncio.run(_log_in(directory, url, browser, ",".join(private_host or ())))
    _change(directory, name, is_on=True)
    if as_json:
        print_json({"name": name, "url": url, "secret": oauth_token_secret(url)})
        return
    _print(
        _(
            "Logged in at {name}. Activate it: choirctl secret apply, config load, config apply."
        ).format(name=name)
    )


def log_out(
    ctx: typer.Context, name: ServerName, home: Home = None, as_json: AsJson = False
) -> None:
    """Delete the token of an MCP server, and end it there.

    If its authorization server has no revocation (RFC 7009), that is said; the token then expires by itself.
    """
    directory = find_target(ctx, home).home
    server = _server(directory, name)
    url = str(server.url)
    names = (oauth_token_secret(url), login_secret(url))
    with edit_secret_file(directory / "secrets.json") as values:
        token, login = (values.pop(secret, None) for secret in names)
    if token is None and login is None and not server.oauth:
        raise NotFound(_("There is no login at {name}.").format(name=name))
    _change(directory, name, is_on=False)
    # Last: whatever the server answers, the token is not used any more
    is_revoked, note = asyncio.run(_revoke(read_login(login, url), token))
    if as_json:
        print_json({"name": name, "url": url, "revoked": is_revoked, "note": note})
        return
    _print(note)
    _print(
        _(
            "Logged out of {name}. Activate it: choirctl secret apply, config load, config apply."
        ).format(name=name)
    )


@dataclass(frozen=True, slots=True)
class _Browser:
    """The way to a person's browser, and back."""

    paste: bool
    opens: bool
    wait_s: float

    async def ask(self, redirects: RedirectServer, address: str, state: str) -> Redirect:
        """Show an address and return the redirect."""
        _print(
            _("Open this address to log in:\n{spell_uncertain}").format(
                spell_uncertain=spell_uncertain(address)
            )
        )
        if self.paste:
            text = await asyncio.to_thread(
                typer.prompt, tr(_("The address to which you were sent")), err=True
            )
            return read_redirect(text, redirects.redirect_uri, state)
        redirects.expect(state)
        if self.opens:
            await asyncio.to_thread(webbrowser.open, address)
        return await redirects.wait(self.wait_s)


async def _log_in(directory: Path, url: str, browser: _Browser, private_hosts: str) -> None:
    """Log in and store the token."""
    # The SDK takes a second to import.
    from choirctl.api.oauth_login import log_in_at  # noqa: PLC0415

    async with running_redirect_server() as redirects:
        ask = partial(browser.ask, redirects)
        new = await log_in_at(url, redirects.redirect_uri, ask, private_hosts)
    with edit_secret_file(directory / "secrets.json") as values:
        values[oauth_token_secret(url)] = new.token
        values[login_secret(url)] = new.login.model_dump_json()


async def _revoke(login: McpLogin | None, token: str | None) -> tuple[bool, str]:
    """End a token at its server; return whether it did, and a sentence about it."""
    if login is None or not login.revocation_endpoint:
        return False, _(
            "Its authorization server cannot end the token at once; it expires by itself."
        )
    # The SDK takes a second to import.
    from choirctl.api.oauth_login import revoke_tokens  # noqa: PLC0415

    try:
        await revoke_tokens(login, token)
    except ChoirError as error:
        return (
            False,
            _("The token was not ended at its server: {message} It expires by itself.").format(
                message=error.message
            ),
        )
    return True, _("The token was ended at its authorization server.")


def _server(directory: Path, name: str) -> McpServerConfig:
    """Return a server by URL without a fixed token; raises NotFound, InvalidRequest or Conflict."""
    server = read_config(directory / "config.json").mcp.servers.get(name)
    if server is None:
        raise NotFound(
            _("There is no {servers}.{name} in {directory}.").format(
                servers=SERVERS, name=name, directory=directory / "config.json"
            )
        )
    if server.url is None:
        raise InvalidRequest(
            _("{name} is a command; a login is for a server by URL.").format(name=name)
        )
    if server.secret is not None:
        raise Conflict(
            _("{servers}.{name} has a fixed token (`secret`); remove it there first.").format(
                servers=SERVERS, name=name
            )
        )
    return server


def _change(directory: Path, name: str, *, is_on: bool) -> None:
    """Set or remove `oauth` of a server in config.json."""
    file = directory / "config.json"
    servers = raw_servers(file)
    entry: JsonValue = servers[name]
    if not isinstance(entry, dict) or bool(entry.get("oauth")) == is_on:
        return
    others = {key: value for key, value in entry.items() if key != "oauth"}
    servers[name] = {**others, "oauth": True} if is_on else others
    set_value(file, SERVERS, servers)


def _print(text: str) -> None:
    stderr_console().print(text, highlight=False, markup=False, soft_wrap=True)
