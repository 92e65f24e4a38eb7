"""`choirctl mcp login` and `logout`: a login over real HTTP, and what hostile servers try."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio

from choir_common.errors import ChoirError, Conflict, DeadlineExceeded, Forbidden, InvalidRequest
from choir_common.mcp_login import login_secret, read_login
from choir_common.wire.mcp_config import oauth_token_secret
from choirctl.api.oauth_login import NewLogin, log_in_at
from choirctl.api.oauth_redirect import Redirect, read_redirect, running_redirect_server
from choirctl.start.state_directory import initial_config
from tests.support.oauth_server import OAuthServer, running_oauth_server
from tests.support.ports import free_port
from tests.support.shell import ChoirctlRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")
WAIT_S = 60.0
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=60).read()"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[OAuthServer]:
    async with running_oauth_server() as server:
        yield server


@pytest.fixture
def server(running: OAuthServer) -> OAuthServer:
    running.faults = {}
    return running


async def browse(address: str) -> str:
    """Open an address as a browser does; return where it was sent, without going there."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(address)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]


async def visit(address: str) -> int:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(address)).status_code


async def log_in(server: OAuthServer, wait_s: float = WAIT_S) -> NewLogin:
    """Log in with a browser on this machine."""
    async with running_redirect_server() as redirects:

        async def ask_browser(address: str, state: str) -> Redirect:
            redirects.expect(state)
            where = await browse(address)
            if where.startswith(redirects.redirect_uri):
                await visit(where)
            return await redirects.wait(wait_s)

        return await log_in_at(server.url, redirects.redirect_uri, ask_browser)


async def test_a_login_stores_a_token_for_this_server_and_logout_deletes_it(
    server: OAuthServer, tmp_path: Path
) -> None:
    config = json.loads(initial_config(tmp_path))
    config["mcp"] = {"servers": {"wiki": {"url": server.url, "agents": ["main"]}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER)
    shell = ChoirctlRunner(tmp_path, {"BROWSER": f"{sys.executable} {browser} %s"})
    await asyncio.to_thread(lambda: shell.succeeds("mcp", "login", "wiki", "--open"))
    values = json.loads((tmp_path / "secrets.json").read_text())
    assert values[oauth_token_secret(server.url)] in server.access_tokens
    login = read_login(values[login_secret(server.url)], server.url)
    assert login is not None and login.issuer.rstrip("/") == server.origin
    assert login.refresh_token in server.refresh_tokens
    assert read_login(values[login_secret(server.url)], f"{server.origin}/other") is None
    entry = json.loads((tmp_path / "config.json").read_text())["mcp"]["servers"]["wiki"]
    assert entry["oauth"] is True

    await asyncio.to_thread(lambda: shell.succeeds("mcp", "logout", "wiki"))
    assert server.revoked == ["refresh_token", "access_token"] and not server.access_tokens
    assert oauth_token_secret(server.url) not in (tmp_path / "secrets.json").read_text()
    entry = json.loads((tmp_path / "config.json").read_text())["mcp"]["servers"]["wiki"]
    assert "oauth" not in entry
    await asyncio.to_thread(lambda: shell.fails(3, "mcp", "logout", "wiki"))


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ({"issuer": "https://honest.example"}, "issuer mismatch"),
        ({"iss": "https://honest.example"}, "iss mismatch"),
        ({"iss": ""}, "missing iss"),
        ({"resource": "https://bank.example/mcp"}, "does not match"),
        ({"authorization_server": "http://127.0.0.2:1"}, "not encrypted"),
        ({"authorization_server": "https://10.0.0.1"}, "private, local or reserved"),
        ({"authorization_server": "https://169.254.169.254"}, "private, local or reserved"),
        ({"metadata_url": "https://192.168.0.1/x"}, "private, local or reserved"),
        ({"token_endpoint": "https://127.0.0.1:1/token"}, "private, local or reserved"),
    ],
)
async def test_servers_that_lie_or_lead_to_private_addresses_get_nothing(
    server: OAuthServer, faults: dict[str, str], why: str
) -> None:
    server.faults = faults
    count = len(server.token_grants)
    with pytest.raises(ChoirError, match=why):
        await log_in(server)
    # no code and no verifier was sent
    assert len(server.token_grants) == count


async def test_a_redirect_to_another_host_or_of_another_login_is_not_accepted(
    server: OAuthServer,
) -> None:
    server.faults = {"redirect": f"http://127.0.0.1:{free_port()}/callback"}
    with pytest.raises(DeadlineExceeded):
        await log_in(server, wait_s=0.3)
    server.faults = {"state": "of-another-login"}
    with pytest.raises(DeadlineExceeded):
        await log_in(server, wait_s=0.3)


async def test_a_redirect_counts_once_and_only_with_the_state_of_the_login() -> None:
    async with running_redirect_server() as redirects:
        address = f"{redirects.redirect_uri}?code=c&state=right"
        assert await visit(address) == 400  # nobody waits yet
        redirects.expect("right")
        assert await visit(f"{redirects.redirect_uri}?code=evil&state=wrong") == 400
        assert await visit(f"{redirects.redirect_uri}?code=evil&code=c&state=right") == 400
        assert await visit(address.replace("/callback", "/other")) == 400
        assert await visit(address) == 200
        assert await visit(f"{redirects.redirect_uri}?code=again&state=right") == 400
        assert (await redirects.wait(WAIT_S)).code == "c"


async def test_a_pasted_address_must_be_that_of_the_login() -> None:
    here = "http://127.0.0.1:5000/callback"
    assert read_redirect(f" {here}?code=c&state=s&iss=i\n", here, "s") == Redirect("c", "s", "i")
    for address in (
        "http://127.0.0.1:5001/callback?code=c&state=s",
        "https://evil.example/callback?code=c&state=s",
        f"{here}?code=c",
        f"{here}?state=s",
    ):
        with pytest.raises(InvalidRequest):
            read_redirect(address, here, "s")
    with pytest.raises(Forbidden, match="no thanks"):
        read_redirect(f"{here}?error=access_denied&error_description=no+thanks&state=s", here, "s")


async def test_a_server_without_a_login_is_named(server: OAuthServer) -> None:
    new = await log_in(server)
    assert parse_qs(urlsplit(new.login.token_endpoint).query) == {}
    server.access_tokens.add("")
    try:
        with pytest.raises(Conflict, match="without a login"):
            await log_in(server)
    finally:
        server.access_tokens.remove("")
