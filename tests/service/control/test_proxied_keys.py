"""Keys that the egress proxy adds: what control gives to the agent and to the proxy."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from choir_common.egress.key_placeholders import KeyProxy, is_placeholder, key_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_secrets import apply, key_of, write
from tests.service.control.world import MODEL_KEY, World
from tests.support.egress import running_egress
from tests.support.keyed_server import KeyedServer, running_keyed_server

NEW_KEY = "sk-rotated-key-of-the-test"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[KeyedServer]:
    async with running_keyed_server(tmp_path) as server:
        yield server


@pytest.fixture
async def proxied(stopped: World, server: KeyedServer) -> AsyncIterator[World]:
    """A choird with the egress service, whose model is at the server."""
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    config["models"]["default"]["endpoint"] = f"{server.origin}/v1"
    path.write_text(json.dumps(config))
    async with running_egress(stopped.home, trusted=server.certificate):
        endpoint = f"unix://{stopped.home}/socks/agents/egress/control.sock"
        stopped.settings = stopped.settings.model_copy(update={"egress_endpoint": endpoint})
        await stopped.start()
        yield stopped
        await stopped.close()


async def arrived(agent: AgentHand, server: KeyedServer) -> str:
    """Return the key that reaches the model's server when the agent sends its placeholder."""
    socket = agent.spec.egress_socket(str(agent.spec.socket_dir))
    transport = KeyProxyTransport(KeyProxy(socket, agent.spec.egress_key))
    async with httpx2.AsyncClient(transport=transport) as client:
        headers = {"X-Api-Key": await key_of(agent) or ""}
        answer = await client.get(f"{server.origin}/v1/models", headers=headers)
    assert answer.status_code == 200, answer.text
    return server.requests[-1]["x-api-key"]


async def test_the_agent_gets_a_placeholder_and_the_proxy_adds_the_key_also_a_new_one(
    proxied: World, server: KeyedServer
) -> None:
    agent = await proxied.agent()
    await agent.begin()
    assert await key_of(agent) == key_placeholder(agent.spec.egress_key, "key")
    assert await arrived(agent, server) == MODEL_KEY
    write(proxied, {"key": NEW_KEY})
    await apply(proxied)
    assert is_placeholder(await key_of(agent))
    assert await arrived(agent, server) == NEW_KEY


async def test_a_key_is_given_to_no_agent_that_has_not_asked_for_its_secrets(
    proxied: World, server: KeyedServer
) -> None:
    agent = await proxied.agent()
    await agent.begin()
    spec = replace(agent.spec)
    transport = KeyProxyTransport(
        KeyProxy(spec.egress_socket(str(spec.socket_dir)), spec.egress_key)
    )
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx2.ConnectError, match="not a server of this key"):
            headers = {"X-Api-Key": key_placeholder(spec.egress_key, "key")}
            await client.get(f"http://localhost:{server.port}/", headers=headers)


async def test_without_the_proxy_the_agent_gets_the_key_and_readyz_says_so(
    world: World, agent: AgentHand
) -> None:
    assert await key_of(agent) == MODEL_KEY
    parts = (await world.get("/readyz")).json()["parts"]
    details = {part["name"]: part["detail"] for part in parts}
    assert "hold their keys" in details["egress"]
