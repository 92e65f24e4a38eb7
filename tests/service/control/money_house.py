"""A choird with memory, a speech service, and one real agent for each provider of models.

Every call costs money, and each fake keeps its own count of what it bills.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from choir_common.clients.control import NatsControlClient
from choir_common.http.listen import bind_unix, serve
from choir_common.wire.attachments import Attachment
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import FakeProvider, Usage
from choir_testing.providers.server import run_provider
from tests.service.control.test_files import GatewayDoor
from tests.service.control.world import World, a_config, a_message, until
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.servers import MakeMemory, MemoryProcess
from tests.service.models.provider_matrix import every_provider
from tests.support.fake_speech import FakeSpeech, fake_speech
from tests.support.ogg import make_speech

PRICES = {"input": 3, "cached_input": 1, "cache_write": 4, "output": 15}
EMBEDDING, MILLION_CHARACTERS, AUDIO_MINUTE = 2, 30, Decimal("0.006")
SPEAKER = "openai"
"""The agent that hears and speaks."""
BLIND, EYE = "deepseek", "anthropic"
"""An agent whose model does not see, and the model that describes its pictures."""
Edit = Callable[[dict[str, Any]], None]


@dataclass
class House:
    """The services, and what they were paid for."""

    world: World
    providers: dict[str, FakeProvider]
    """By the name of their agent, which is the provider's."""
    memory_model: OpenAi
    embedding: ScriptedProvider
    speech: FakeSpeech
    memory: MemoryProcess
    door: GatewayDoor
    keys: dict[str, str]
    _said: int = field(default=0)

    async def asks(self, agent: str, text: str) -> str:
        """Say something to an agent and return its answer."""
        accepted = await self.world.say(text, self._next_id(), agent)
        return await self._answer(accepted.inbox_id)

    async def speaks(self, words: str) -> str:
        """Send a voice message and return its answer."""
        self.door.files["voice"] = make_speech(words)
        file = Attachment(name="v.ogg", kind="voice", mime="audio/ogg", size=None, ref="voice")
        return await self._sends(SPEAKER, file)

    async def shows(self, picture: bytes) -> str:
        """Send a picture to the agent whose model does not see, and return its answer."""
        self.door.files["photo"] = picture
        file = Attachment(name="p.png", kind="photo", mime="image/png", size=None, ref="photo")
        return await self._sends(BLIND, file)

    async def _sends(self, agent: str, file: Attachment) -> str:
        message = a_message("", self._next_id(), agent, attachments=(file,))
        accepted = await NatsControlClient(self.world.bus).accept(message)
        return await self._answer(accepted.inbox_id)

    def bill(self) -> dict[str, Decimal]:
        """Return what the services bill, in dollars by kind, from their own counts."""
        chat = sum(
            (
                _bill(name, answer.usage)
                for name, one in self.providers.items()
                for answer in one.answers
            ),
            Decimal(0),
        )
        memory = sum((_bill("", answer.usage) for answer in self.memory_model.answers), Decimal(0))
        characters = sum(len(str(body["input"])) for body in self.speech.spoken)
        return {
            "chat": chat,
            "memory": memory,
            "embedding": Decimal(self.embedding.tokens * EMBEDDING) / 1_000_000,
            "speech": Decimal(characters * MILLION_CHARACTERS) / 1_000_000,
            # the fake hears three seconds
            "transcription": 3 * len(self.speech.heard) * AUDIO_MINUTE / 60,
        }

    def _next_id(self) -> str:
        self._said += 1
        return f"u{self._said}"

    async def _answer(self, inbox_id: str) -> str:
        def found() -> list[str]:
            delivered = self.world.gateway.delivered
            return [message.text for message in delivered if message.answers == inbox_id]

        async def answered() -> bool:
            return bool(found())

        await until(answered)
        return found()[0]


def _bill(name: str, usage: Usage) -> Decimal:
    """Return what a provider bills for a call, by the counts that its own API has."""
    if name == "openrouter":
        return Decimal(repr(usage.billed_usd))
    counts = {} if name in ("ollama", "lmstudio") else {"cached": usage.cached_tokens}
    if name in ("", "anthropic", "openai", "openai-responses", "gemini-openai"):
        counts["written"] = usage.cache_write_tokens
    cached, written = counts.get("cached", 0), counts.get("written", 0)
    fresh = usage.prompt_tokens - cached - written
    millionths = fresh * 3 + cached * 1 + written * 4 + usage.completion_tokens * 15
    return Decimal(millionths) / 1_000_000


@contextlib.asynccontextmanager
async def money_house(
    world: World,
    make_memory: MakeMemory,
    edit: Edit = lambda config: None,
    names: Collection[str] = (),
) -> AsyncIterator[House]:
    """Start all of it; `edit` changes config.json before, and `names` are the providers if not all."""
    kinds = {name: kind for name, kind in every_provider().items() if not names or name in names}
    keys = {name: f"sk-canary-{name}-7f3a91" for name in (*kinds, "memory", "embedding", "speech")}
    if "ollama" in kinds:
        keys["ollama"] = ""
    async with contextlib.AsyncExitStack() as stack:
        providers = {
            name: await stack.enter_async_context(run_provider(kind(key=keys[name])))
            for name, kind in kinds.items()
        }
        model = await stack.enter_async_context(run_provider(OpenAi(key=keys["memory"])))
        embedding = await stack.enter_async_context(ScriptedProvider())
        speech = await stack.enter_async_context(fake_speech(keys["speech"]))
        memory = make_memory(
            CHOIR_EMBEDDING_ENDPOINT=embedding.url,
            CHOIR_EMBEDDING_MODEL="scripted",
            CHOIR_EMBEDDING_DIMENSIONS="8",
        )
        memory.secrets["model"] = json.loads(model.settings(secret="memory").model_dump_json())
        memory.secrets |= {"model_key": keys["memory"], "embedding_key": keys["embedding"]}
        await memory.start()
        door = await stack.enter_async_context(_file_door(world))
        house = House(world, providers, model, embedding, speech, memory, door, keys)
        config = _configure(world, house)
        edit(config)
        world.settings.config_file.write_text(json.dumps(config))
        world.secrets = world.secrets.model_copy(update={"secrets": {**keys, "tg": "token"}})
        await world.start(ProcessRuntime(world.home, os.environ))
        try:
            yield house
        finally:
            await world.stop()


def _configure(world: World, house: House) -> dict[str, Any]:
    config = a_config(world.home)
    for section in ("agents", "workspaces", "models"):
        config[section] = {}
    for number, (name, provider) in enumerate(house.providers.items()):
        settings = provider.settings(secret=name if house.keys[name] else None)
        config["models"][name] = {**json.loads(settings.model_dump_json()), "prices": PRICES}
        config["workspaces"][name] = {"path": str(world.home / "workspaces" / name)}
        config["dms"][name] = {"gateway": "bot", "user_id": str(100 + number)}
        defaults = {"workspace": name, "llm": name, "dm": name}
        config["agents"][name] = {"defaults": defaults, "autostart": True}
    model = house.memory_model.settings(secret="memory")
    config["models"]["memory"] = {**json.loads(model.model_dump_json()), "prices": PRICES}
    # a search asks the embedding model and memory's own model
    config["memory"] = {"model": "memory", "query_expansion": True, "reminder_tokens": 0}
    config["embedding"] = {
        "model": "scripted",
        "dimensions": 8,
        "endpoint": house.embedding.url,
        "secret": "embedding",
        "prices": {"input": EMBEDDING},
    }
    ears = {"model": "whisper-1", "endpoint": house.speech.endpoint, "secret": "speech"}
    config["transcription"] = {"ears": {**ears, "prices": {"audio_minute": float(AUDIO_MINUTE)}}}
    voice = {"provider": "openai", "model_id": "tts", "endpoint": house.speech.endpoint}
    prices = {"million_characters": MILLION_CHARACTERS}
    config["tts"] = {"loud": {**voice, "secret": "speech", "prices": prices}}
    config["voice_profiles"] = {"loud": {"tts": "loud", "voice_id": "alloy"}}
    config["agents"][SPEAKER]["defaults"]["voice_profile"] = "loud"
    config["agents"][BLIND]["defaults"]["vision_llm"] = EYE
    # limits that are not reached: each call is reserved and settled
    config["budgets"] = {"usd_per_day": 1_000, "total_usd_per_month": 10_000}
    config["summary_timeout_ms"] = 0
    return config


@contextlib.asynccontextmanager
async def _file_door(world: World) -> AsyncIterator[GatewayDoor]:
    made, stop = GatewayDoor(), asyncio.Event()
    directory = Path(world.home / "socks")
    directory.mkdir(mode=0o700, exist_ok=True)
    server = asyncio.create_task(serve(made.app(), [bind_unix(directory / "gateway.sock")], stop))
    try:
        yield made
    finally:
        stop.set()
        await server
