"""Clients of an agent that has placeholders: models of each API, services of tools, and git."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import orjson
import pytest
import pytest_asyncio

from choir_agent.credentials.git_access import GitAccess
from choir_agent.egress.relay import EgressRelay, open_relay
from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.builtin.notion_query import NotionQueryTool
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.builtin.web_search import WebSearchTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.egress.key_placeholders import key_placeholder
from choir_common.wire.egress import AgentEgress, ProxiedKey
from choir_common.wire.model_config import ModelApi
from choir_models.model import NO_LISTENER, ModelFailed, OutputListener, Prompt
from choir_models.registry import ADAPTERS, ModelRegistry
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.provider import KEY as PROVIDER_KEY
from choir_testing.providers.provider import Answer
from choir_testing.providers.server import run_provider
from tests.service.agent.git_servers import HttpsGit, https_git, make_repository
from tests.service.agent.test_git_access import CHANGE, current
from tests.service.agent.web_calls import use, with_notion, with_search
from tests.service.models.history import Recorder
from tests.service.models.provider_matrix import every_provider
from tests.support.egress import KEY, EgressProcess, boot_parameters, running_egress
from tests.support.fake_web_services import KEY as SERVICE_KEY
from tests.support.fake_web_services import fake_brave, fake_notion
from tests.support.service_process import short_home

GIT_TOKEN = "ghp_canaryCanary0123456789"
PLACEHOLDER = key_placeholder(KEY, "key")
PROMPT = Prompt((orjson.dumps({"role": "user", "content": "hello"}),))
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Place:
    """The proxy of one agent, the agent's relay to it, and a git server that the proxy trusts."""

    egress: EgressProcess
    relay: EgressRelay
    git_server: HttpsGit

    async def allow(self, value: str, *servers: str, tools: tuple[str, ...] = ()) -> None:
        """Let the agent use a key at these servers, and no other key."""
        key = ProxiedKey(placeholder=PLACEHOLDER, value=value, servers=servers, tools=tools)
        hosts = tuple(server.partition("://")[2] for server in servers)
        agent = AgentEgress(
            agent_id="main", key=KEY, own_hosts=hosts, tool_hosts=hosts, proxied_keys=(key,)
        )
        assert (await self.egress.put(agent)).is_success


@asynccontextmanager
async def git_place() -> AsyncIterator[HttpsGit]:
    """Serve a repository over HTTPS."""
    with tempfile.TemporaryDirectory(prefix="choir-g-") as root:
        make_repository(Path(root))
        with https_git(Path(root), GIT_TOKEN) as server:
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with short_home() as home, git_place() as server:
        agent = AgentEgress(agent_id="main", key=KEY)
        async with running_egress(home, agent, trusted=server.certificate) as egress:
            relay = open_relay(boot_parameters(egress))
            assert relay is not None
            async with relay.serving():
                yield Place(egress, relay, server)


@pytest.mark.parametrize("listener", [NO_LISTENER, Recorder()], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", sorted(ADAPTERS))
async def test_each_models_key_is_added_by_the_proxy(
    place: Place, api: ModelApi, listener: OutputListener
) -> None:
    registry = ModelRegistry(place.relay.route.key_proxy)
    kind = next(kind for kind in every_provider().values() if kind.api == api)
    async with run_provider(kind(key=PROVIDER_KEY)) as provider:
        provider.script(Answer(text="the answer"))
        address = httpx2.URL(provider.endpoint)
        await place.allow(PROVIDER_KEY, f"http://{address.host}:{address.port}")
        try:
            done = await registry.think(provider.settings(), PLACEHOLDER, PROMPT, listener)
        finally:
            await registry.close()
        assert done.text == "the answer"
        headers = [value for request in provider.requests for value in request.headers.values()]
        assert any(PROVIDER_KEY in value for value in headers)
        assert not any(PLACEHOLDER in value for value in headers)


async def test_the_questions_to_an_ollama_server_carry_the_key(place: Place) -> None:
    registry = ModelRegistry(place.relay.route.key_proxy)
    async with run_provider(FakeOllama(key=PROVIDER_KEY)) as provider:
        address = httpx2.URL(provider.endpoint)
        await place.allow(PROVIDER_KEY, f"http://{address.host}:{address.port}")
        window = await registry.windows.find(provider.settings(), PLACEHOLDER)
        assert window.is_known and window.server == "ollama"


async def test_a_refusal_of_the_proxy_is_a_failed_connection_with_its_reason(place: Place) -> None:
    registry = ModelRegistry(place.relay.route.key_proxy)
    await place.allow(PROVIDER_KEY, "https://localhost:1")
    async with run_provider(FakeOllama(key=PROVIDER_KEY)) as provider:
        settings = provider.settings(api="openai", provider="other")
        with pytest.raises(ModelFailed, match="not a server of this key"):
            await registry.think(settings, PLACEHOLDER, PROMPT)
        assert provider.requests == []
    await registry.close()


async def test_notion_and_web_search_work_with_a_placeholder(place: Place) -> None:
    web = ApiClient(place.relay.route.key_proxy)
    async with fake_notion() as (notion, _), fake_brave() as brave:
        servers = [httpx2.URL(service.endpoint) for service in (notion, brave)]
        await place.allow(SERVICE_KEY, *(f"http://{url.host}:{url.port}" for url in servers))
        query = {"operation": "search", "query": "plan"}
        tool = NotionQueryTool(web)
        assert await use(tool, with_notion(notion.endpoint), query, PLACEHOLDER)
        tool_2 = WebSearchTool(web)
        found = await use(tool_2, with_search(brave.endpoint), {"query": "x"}, PLACEHOLDER)
        assert found["results"]
        await place.allow(SERVICE_KEY, "https://localhost:1")
        with pytest.raises(ToolFailed, match="not a server of this key"):
            await use(tool_2, with_search(brave.endpoint), {"query": "x"}, PLACEHOLDER)


async def test_without_a_placeholder_nothing_goes_to_the_proxy(place: Place) -> None:
    async with run_provider(FakeOllama(key=PROVIDER_KEY)) as provider:
        registry = ModelRegistry(place.relay.route.key_proxy)
        provider.script(Answer(text="direct"))
        done = await registry.think(provider.settings(), PROVIDER_KEY, PROMPT)
        assert done.text == "direct"
        await registry.close()


class Shell:
    """The agent's shell with git, over the relay."""

    def __init__(self, place: Place, root: Path) -> None:
        (root / "ws").mkdir()
        (root / "tmp").mkdir()
        self.root = root
        self.git = GitAccess(str(root / "tmp"), root / "ws", proxied=True)
        children = ProgramRunner(
            root / "ws", str(root / "tmp"), git=self.git, egress=place.relay.route
        )
        self.shell = ShellTool(children)

    async def run(self, command: str) -> tuple[int, str]:
        """Run a command as the model would; return its exit code and what it printed."""
        arguments = {"command": command, "network": True}
        done = await self.shell.run(CallContext("call_1", "edge"), arguments)
        code = done.output["exit_code"]
        assert isinstance(code, int)
        return code, f"{done.output['stdout']}{done.output['stderr']}"


async def test_git_clones_and_pushes_without_the_token(place: Place) -> None:
    server = place.git_server
    await place.allow(GIT_TOKEN, f"https://localhost:{server.port}", tools=("choir.exec",))
    with tempfile.TemporaryDirectory(prefix="choir-p-") as root:
        agent = Shell(place, Path(root))
        try:
            await agent.git.apply_settings(current(PLACEHOLDER, f"localhost:{server.port}"))
            code, said = await agent.run(f"git clone -q {server.url('localhost')} repo && {CHANGE}")
            assert code == 0, said
            assert server.was_shown_the_token()
            _, remote = await agent.run("git -C repo config remote.origin.url")
            assert remote.strip() == server.url("localhost")
            asked = "printf 'protocol=http\\nhost=localhost:%s\\n\\n' | git credential fill"
            _, given = await agent.run(asked % server.port)
            assert f"password={PLACEHOLDER}" in given
            everything = b"".join(
                path.read_bytes()
                for path in Path(root).rglob("*")
                if path.is_file() and not path.is_symlink()
            )
            assert GIT_TOKEN.encode() not in everything
        finally:
            await agent.git.close()


async def test_a_git_address_with_a_user_name_is_explained(place: Place) -> None:
    server = place.git_server
    await place.allow(GIT_TOKEN, f"https://localhost:{server.port}", tools=("choir.exec",))
    with tempfile.TemporaryDirectory(prefix="choir-p-") as root:
        agent = Shell(place, Path(root))
        try:
            await agent.git.apply_settings(current(PLACEHOLDER, f"localhost:{server.port}"))
            asked = "printf 'protocol=https\\nhost=localhost:%s\\n\\n' | git credential fill"
            _, said = await agent.run(asked % server.port)
            assert "the egress proxy adds the token" in said
        finally:
            await agent.git.close()
