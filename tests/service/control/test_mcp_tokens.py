"""Tokens of MCP servers are renewed before they end, at the server that gave them and nowhere else."""

import json
import time
from collections.abc import AsyncIterator

import pytest

from choir_common.mcp_login import McpLogin, login_secret, renewal_request
from choir_common.wire.mcp_config import oauth_token_secret
from tests.service.control.test_secrets import apply, write
from tests.service.control.world import GATEWAY_TOKEN, MODEL_KEY, World
from tests.support.oauth_server import Grant, OAuthServer, running_oauth_server


@pytest.fixture
async def server() -> AsyncIterator[OAuthServer]:
    async with running_oauth_server() as running:
        running.refresh_tokens["refresh-old"] = Grant("client-0")
        yield running


def login_at(server: OAuthServer, **changes: object) -> McpLogin:
    login = McpLogin(
        url=server.url,
        issuer=server.origin,
        token_endpoint=f"{server.origin}/token",
        client_id="client-0",
        resource=server.url,
        refresh_token="refresh-old",
        expires_at=time.time() + 60,
    )
    return login.model_copy(update=changes)


async def start(world: World, url: str, login: McpLogin) -> None:
    """Start a choird whose server `wiki` has this login."""
    file = world.settings.config_file
    config = json.loads(file.read_text())
    config["mcp"] = {"servers": {"wiki": {"url": url, "oauth": True, "agents": ["main"]}}}
    file.write_text(json.dumps(config))
    tokens = {
        oauth_token_secret(login.url): "access-old",
        login_secret(url): login.model_dump_json(),
    }
    write(world, {"key": MODEL_KEY, "tg": GATEWAY_TOKEN, **tokens})
    await world.start()
    await apply(world)


async def token_of(world: World, url: str) -> str | None:
    hand = await world.agent()
    await hand.begin()
    name = oauth_token_secret(url)
    body = json.dumps({"resources": [name]}).encode()
    value: str | None = json.loads(await hand.call("GET_SECRETS", body))["secrets"].get(name)
    return value


async def test_a_token_that_ends_soon_is_renewed_and_the_agent_gets_the_new_one(
    stopped: World, server: OAuthServer
) -> None:
    await start(stopped, server.url, login_at(server))
    await stopped.control.services.config_changes.mcp_tokens.sweep()
    assert server.token_grants == ["refresh_token"]
    token = await token_of(stopped, server.url)
    assert token in server.access_tokens
    stored = json.loads(stopped.settings.secrets_json.read_text())
    assert json.loads(stored[login_secret(server.url)])["refresh_token"] in server.refresh_tokens
    # it is good for an hour
    assert await stopped.control.services.config_changes.mcp_tokens.sweep() == 0


async def test_a_refused_renewal_is_not_repeated(stopped: World, server: OAuthServer) -> None:
    server.refresh_tokens.clear()
    await start(stopped, server.url, login_at(server))
    renewer = stopped.control.services.config_changes.mcp_tokens
    assert (await renewer.sweep(), await renewer.sweep()) == (0, 0)
    assert server.token_grants == ["refresh_token"]


@pytest.mark.parametrize("endpoint", ["", "https://127.0.0.1:1/token", "https://10.0.0.1/token"])
async def test_a_token_is_never_for_another_url_or_renewed_at_a_private_address(
    stopped: World, server: OAuthServer, endpoint: str
) -> None:
    if endpoint:
        await start(stopped, server.url, login_at(server, token_endpoint=endpoint))
    else:
        # somebody changed the url in config.json
        await start(stopped, f"{server.origin}/other", login_at(server))
        assert await token_of(stopped, f"{server.origin}/other") is None
    assert await stopped.control.services.config_changes.mcp_tokens.sweep() == 0
    assert server.token_grants == []


def test_a_client_with_a_secret_authenticates_as_it_was_registered() -> None:
    login = McpLogin(
        url="https://a.example/mcp",
        issuer="https://a.example",
        token_endpoint="https://a.example/token",
        client_id="c 1",
        client_secret="s:1",
        auth_method="client_secret_basic",
        resource="https://a.example/mcp",
        refresh_token="r",
        expires_at=0,
    )
    basic = renewal_request(login)
    assert basic.headers["Authorization"] == "Basic YyUyMDE6cyUzQTE="
    assert "client_secret" not in basic.fields
    posted = renewal_request(login.model_copy(update={"auth_method": "client_secret_post"}))
    assert posted.fields["client_secret"] == "s:1" and "Authorization" not in posted.headers
