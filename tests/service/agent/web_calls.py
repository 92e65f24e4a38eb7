"""Calls of the tools that use services of the web, as the arbiter makes them; called by their tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from choir_agent.tools.tool import CallContext, Tool, ToolFailed
from choir_common.wire.config import (
    AgentSettings,
    Budgets,
    ModelConfig,
    NotionConfig,
    SearchConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.model import JsonObject
from tests.support.fake_web_services import (
    KEY,
)

SETTINGS = AgentSettings(
    model_name="m",
    model=ModelConfig(model="m", endpoint="http://127.0.0.1:1"),
    budgets=Budgets(),
    heartbeat_interval_ms=1000,
    rate_limit_retry_ms=1,
    event_window=10,
)


def with_search(endpoint: str) -> AgentSettings:
    return SETTINGS.model_copy(update={"search": SearchConfig(secret="brave", endpoint=endpoint)})


def with_voice(
    endpoint: str, output_format: str = "opus_48000_64", voice_id: str = "voice1"
) -> AgentSettings:
    profile = VoiceProfileConfig(tts="t", voice_id=voice_id, output_format=output_format)
    tts = TtsConfig(model_id="eleven_multilingual_v2", endpoint=endpoint, secret="eleven")
    return SETTINGS.model_copy(update={"voice": VoiceBinding(profile=profile, tts=tts)})


def with_notion(endpoint: str) -> AgentSettings:
    return SETTINGS.model_copy(update={"notion": NotionConfig(secret="notion", endpoint=endpoint)})


async def use(
    tool: Tool, settings: AgentSettings | None, arguments: JsonObject, key: str | None = KEY
) -> JsonObject:
    """Call a tool as the arbiter does, with the secrets its manifest names."""
    resources = tool.manifest.runtime.secret_resources
    secrets = dict.fromkeys(resources, key) if key else {}
    context = CallContext("call_0123456789ab", "edge", settings=settings, secrets=secrets)  # type: ignore[arg-type]
    return (await tool.run(context, arguments)).output


async def failure_of(
    tool: Tool, settings: AgentSettings | None, arguments: JsonObject, key: str | None = KEY
) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        await use(tool, settings, arguments, key)
    assert KEY not in str(caught.value.error_output())
    return caught.value


@contextlib.asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """Serve bytes that are no whole answer, and then hang up; without bytes, never answer."""
    handled = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not answer:
            await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        handled.set()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(handled.wait(), 60)
    finally:
        server.close()
