"""New settings win over older ones, whatever the models' servers take to answer; silent servers are asked
again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from choir_agent.control_client import dynamic_settings
from choir_agent.control_client.dynamic_settings import DynamicSettings
from choir_agent.settings import CurrentSettings
from choir_common.redactor import Redactor
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.rpc import ConfigRequest, ConfigResponse
from choir_models.context_windows import ContextWindow


def settings_for(name: str) -> AgentSettings:
    model = ModelConfig(model=name, endpoint="http://x")
    return AgentSettings(
        model_name="m",
        model=model,
        budgets=Budgets(),
        heartbeat_interval_ms=200,
        rate_limit_retry_ms=20,
        event_window=50,
    )


class FixedControl:
    """Control with one configuration, newer than any other."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings

    async def fetch_config(self, request: ConfigRequest) -> ConfigResponse:
        is_newer = request.current_config_version != 2
        return ConfigResponse(config_version=2, config=self._settings if is_newer else None)


class Servers:
    """Model servers; `old` answers when it is released, `silent` never tells."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = asyncio.Event()

    async def find(self, model: ModelConfig, api_key: str | None) -> ContextWindow:
        self.asked.append(model.model)
        if model.model == "old":
            await self.released.wait()
        return ContextWindow(8_192, is_known=model.model != "silent")


class NoListener:
    async def apply_settings(self, current: CurrentSettings) -> None:
        pass


@contextlib.asynccontextmanager
async def running(servers: Servers, first: str, newest: str) -> AsyncIterator[DynamicSettings]:
    settings = DynamicSettings(
        control=FixedControl(settings_for(newest)),  # type: ignore[arg-type]
        redactor=Redactor(),
        listener=NoListener(),
        windows=servers,
        version=1,
        settings=settings_for(first),
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(settings.run())
        yield settings
        task.cancel()


async def test_settings_that_came_while_a_server_was_asked_are_the_ones_in_force() -> None:
    servers = Servers()
    async with running(servers, "old", "new") as settings:
        loading = asyncio.create_task(settings.load_secrets())
        while "old" not in servers.asked:
            await asyncio.sleep(0)
        settings.mark_stale()
        for _ in range(20):
            await asyncio.sleep(0)
        servers.released.set()
        await loading
        while settings.version != 2:
            await asyncio.sleep(0)
        assert settings.current().settings.model.model == "new"


async def test_a_server_that_did_not_tell_at_the_start_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dynamic_settings, "PAUSE_S", 0.001)
    servers = Servers()
    async with running(servers, "silent", "silent") as settings:
        # the loop already waits for news when the first answer comes
        await asyncio.sleep(0)
        await settings.load_secrets()
        while len(servers.asked) < 4:
            await asyncio.sleep(0.001)
