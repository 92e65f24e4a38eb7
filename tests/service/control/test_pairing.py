"""Pairing of unknown users: from the first message of a stranger to a conversation, and back."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from choir_common.clients.control import NatsControlClient
from choir_common.errors import NotFound
from choir_common.wire.messages import ButtonPress
from choir_common.wire.pairing import RequestPairing
from choir_control.agents.erasure.person_store import PersonStore
from choir_control.conversations.pairing.codes import MAX_REQUESTS, MAX_TRIES
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_gateway.control_files import ControlFileClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.telegram import FakeUser, run_fake_telegram
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_telegram_connect import ForwardClock
from tests.service.control.world import OPERATOR_TOKEN, World, until
from tests.support.shell import ChoirctlRunner

TOKEN = "123456:token-of-the-paired-bot"
EVE = 4711
DM = f"bot-{EVE}"


def allow_pairing(
    world: World, *, api_url: str = "http://127.0.0.1:1", role: str = "guest"
) -> None:
    """Let the bot give codes for `main`."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["gateways"]["bot"] |= {"api_url": api_url, "pairing": {"agent": "main", "role": role}}
    path.write_text(json.dumps(config))


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird whose bot gives codes, with a clock that a test moves forward."""
    allow_pairing(stopped)
    stopped.clock = ForwardClock()
    await stopped.start()
    return stopped


class Speaker:
    """Types commands in conversations."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0

    async def say(self, text: str, dm: str = "console") -> str:
        self._count += 1
        accepted = await self._world.say(text, f"typed{self._count}", dm)
        return accepted.note or ""


@contextlib.asynccontextmanager
async def running_gateway(world: World) -> AsyncIterator[ChannelRegistry]:
    """Run the bot's channel against control; deliveries are passed on by the test."""
    control, conversations = NatsControlClient(world.bus, "gw_1"), ConversationDirectory()
    spool = FileSpool(world.home / "gateway", SpoolLimits(1_000, 1_000, timedelta(days=1)))
    console = ConsoleChannel(control, spool, ControlFileClient("http://127.0.0.1:1", None))
    registry = ChannelRegistry(
        control=control,
        conversations=conversations,
        factories={
            "console": ConsoleChannelFactory(console),
            "telegram": TelegramChannelFactory(
                ChannelServices(control, FakeOutboxFiles(), conversations, world.home)
            ),
        },
        secrets={"tg": TOKEN},
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(registry.run(world.bus))
        yield registry
        running.cancel()


async def ask(world: World, user: str, name: str = "") -> str | None:
    """Ask for a code as the gateway does for a stranger; return the code."""
    request = RequestPairing(gateway="bot", user_id=user, user_name=name)
    offer = await NatsControlClient(world.bus).request_pairing(request)
    code = re.search(r"\w{4}-\w{4}", offer.text or "")
    return code[0] if code else None


async def count_rows(world: World) -> int:
    return int(await world.database.fetchval("SELECT count(*) FROM choir_control.pairing_requests"))


async def until_listed(world: World, registry: ChannelRegistry, dm: str) -> None:
    """Wait until the gateway knows a conversation."""

    async def is_known() -> bool:
        with contextlib.suppress(NotFound):
            return registry.user_of(dm) == str(EVE)
        return False

    await until(is_known)


async def assert_nothing_is_stored(world: World, text: str) -> None:
    stored = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.inbox WHERE text LIKE '%' || $1 || '%'", text
    )
    assert stored == 0


async def test_a_stranger_on_telegram_is_paired_talks_as_a_guest_and_is_unpaired(
    stopped: World,
) -> None:
    world = stopped
    async with run_fake_telegram() as telegram:
        allow_pairing(world, api_url=telegram.api_url)
        eve = telegram.user(EVE, TOKEN)
        await world.start()
        agent = await world.agent()
        await agent.begin()
        async with running_gateway(world) as registry:
            code = await read_code(eve)
            await assert_nothing_is_stored(world, "let me in")
            speaker = Speaker(world)
            assert "for admin conversations" in await speaker.say(f"/pair {code}", "second")
            assert code in await speaker.say("/pair")
            assert f"in the conversation {DM}" in await speaker.say(f"/pair {code.lower()}")
            await until_listed(world, registry, DM)
            await deliver_welcome(world, registry)
            assert "talk with main" in (await eve.receive()).text
            await eve.send("hello from eve")
            message = await agent.next_message()
            assert (message.dm, message.text) == (DM, "hello from eve")
            assert message.sender is not None and message.sender.role == "guest"
            for text in ("/pair", "/stop", "/link", "/approvals", "/schedule"):
                assert "for admin conversations" in await speaker.say(text, DM), text
        await world.stop()
        await world.start()
        await check_that_it_stays(world)
        assert "no conversation any more" in await Speaker(world).say(f"/unpair {DM}")
        table = await NatsControlClient(world.bus).channels()
        assert DM not in {dm.name for dm in table.dms}
        with pytest.raises(NotFound):
            await world.say("still here?", "late", DM)


async def read_code(eve: FakeUser) -> str:
    """Write three times as a stranger; return the code in the only reply."""
    for _ in range(3):
        update = await eve.send("let me in")
    reply = await eve.receive()
    await eve.until_confirmed(update)
    assert await eve.receives_nothing(0.2)
    code = re.search(r"\w{4}-\w{4}", reply.text)
    assert code is not None, reply.text
    return code[0]


async def deliver_welcome(world: World, registry: ChannelRegistry) -> None:
    """Pass on what control sends to the paired user, which the stand-in has received."""

    async def is_there() -> bool:
        return any(it.dm == DM for it in world.gateway.delivered)

    await until(is_there)
    await registry.deliver(next(it for it in world.gateway.delivered if it.dm == DM))


async def check_that_it_stays(world: World) -> None:
    """Check that the conversation survives an unrelated change, and is no difference to the file."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "event_window": 60}))
    loaded = await world.post("/v1/config/load")
    assert [it["path"] for it in loaded.json()["changes"]] == ["event_window"], loaded.text
    assert (await world.post("/v1/config/apply")).status_code == 200
    assert DM not in (await world.get("/v1/config")).text
    paired = (await world.get("/v1/people")).json()["items"][-1]
    assert (paired["name"], paired["role"]) == (DM, "guest")
    assert paired["identities"][0]["dms"] == [DM]
    assert DM in {dm.name for dm in (await NatsControlClient(world.bus).channels()).dms}


async def test_codes_are_few_expire_and_are_given_once_an_hour(world: World) -> None:
    speaker = Speaker(world)
    first = await ask(world, "1", "[Eve](http://evil.example)\x1b[2J"[:40])
    assert first is not None and await ask(world, "1") is None
    codes = [await ask(world, str(number)) for number in range(2, 60)]
    assert sum(code is not None for code in codes) == MAX_REQUESTS - 1
    assert await count_rows(world) == MAX_REQUESTS
    notices = await world.delivered(MAX_REQUESTS)
    assert len(notices) == MAX_REQUESTS
    assert '"Eve http evil example 2J", user 1 of bot' in notices[0]
    assert "Refused" in await speaker.say(f"/pair deny {first}")
    assert first not in await speaker.say("/pair") and await ask(world, "1") is None
    for _ in range(MAX_TRIES):
        assert "Nobody waits with this code" in await speaker.say(f"/pair {first}")
    assert "Try again in ten minutes" in await speaker.say(f"/pair {codes[0]}")
    assert isinstance(world.clock, ForwardClock)
    world.clock.ahead = timedelta(hours=1)
    late = await world.post("/v1/people/pairings", json={"code": codes[0]})
    assert late.status_code == 404, late.text
    again = await ask(world, "1")
    assert again not in (None, first) and await count_rows(world) == 1


async def test_only_a_press_of_an_admin_decides(world: World) -> None:
    await ask(world, str(EVE), "Eve")
    await world.delivered(1)
    (notice,) = (it for it in world.gateway.delivered if it.buttons)
    assert notice.dm == "console"
    client = NatsControlClient(world.bus)
    forged = ButtonPress(
        gateway="bot", user_id="7", chat_id="7", data=notice.buttons[0].data, callback_id="1"
    )
    forwarded = {"gateway": "console", "user_id": "operator", "chat_id": "7"}
    for press in (
        forged,
        forged.model_copy(update={"user_id": str(EVE), "chat_id": str(EVE)}),
        forged.model_copy(update=forwarded),
    ):
        assert "no longer open" in (await client.press(press)).answer
    version = (await client.channels()).config_version
    press = forged.model_copy(update={**forwarded, "chat_id": "operator"})
    assert (await client.press(press)).answer == f"Allowed: {DM}."
    assert (await world.get(f"/v1/people/{DM}")).json()["approved_by"] == "dm console"
    assert "no longer open" in (await client.press(press)).answer
    table = await client.channels()
    assert DM in {dm.name for dm in table.dms}
    # agents read their settings again: one that talks with a guest has no longer the role of an admin
    assert table.config_version > version
    assert world.control is not None
    assert world.control.services.configuration.current.role_for("main", "console") == "user"


async def test_operators_pair_and_unpair_and_an_erasure_reaches_it(
    world: World, agent: AgentHand
) -> None:
    shell = ChoirctlRunner(world.home, {"CHOIR_URL": world.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN})
    codes = [await ask(world, user, "Eve") for user in ("1", str(EVE), "3")]

    def use_commands() -> None:
        listed: list[dict[str, Any]] = shell.data("person", "pair", "--list")
        assert [it["code"] for it in listed] == codes
        assert "Eve" in shell.succeeds("person", "pair")
        shell.data("person", "pair", "--deny", str(codes[0]))
        assert shell.data("person", "pair", str(codes[1]))["dm"] == DM
        shell.fails(3, "person", "pair", str(codes[1]))
        assert "Eve" in shell.succeeds("person", "list")
        assert shell.data("person", "show", DM)["identities"][0]["source"] == "pairing"
        assert shell.data("person", "show", DM)["approved_by"] == "operator"
        shell.data("person", "unpair", DM)
        shell.fails(3, "person", "unpair", DM)
        shell.succeeds("person", "pair", str(codes[2]))

    async with agent.beating():
        await asyncio.to_thread(use_commands)
    store = PersonStore(world.database)
    assert (await store.count_rows(["bot-3"], []))["paired_users"] == 1
    await store.erase_rows(["bot-3"], [])
    assert world.control is not None
    await world.control.services.pairing.sweep()
    assert (await world.get("/v1/people/bot-3")).status_code == 404
    assert "bot-3" not in {dm.name for dm in (await NatsControlClient(world.bus).channels()).dms}
