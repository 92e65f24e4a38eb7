"""The console over real HTTP and SSE, the gateway as a process, control's stand-in behind it."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable

import httpx2
import psutil
import pytest

from choir_common.bus.client import Bus
from choir_common.errors import Unavailable
from choir_common.http.client import make_client
from choir_common.http.response_parser import ServerSentEvent, parse_events
from choir_common.wire.messages import DmBinding, OutboundMessage
from choir_local.nats import EmbeddedNats
from tests.service.gateway.control_stand_in import (
    ControlStandIn,
    bot_gateway,
    channel_table,
    running_control,
)
from tests.support.bus import BUS_KEY
from tests.support.service_process import ServiceProcess, service_process

SAY = "/v1/dms/console/messages"
FOLLOW = "/v1/dms/console/events"


@pytest.fixture
async def control(nats: EmbeddedNats) -> AsyncIterator[ControlStandIn]:
    """Control with the console, and a bot whose token nobody gave: it must trouble nobody here."""
    table = channel_table(
        bot_gateway("bot-main", "no-such-secret", "http://127.0.0.1:1"),
        DmBinding(name="alice", gateway="bot-main", user_id="7", admin=True),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


@pytest.fixture
async def client(gateway: ServiceProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client(gateway.endpoint) as made:
        yield made


class Listener:
    """An open event stream, read in order."""

    def __init__(self, response: httpx2.Response) -> None:
        self._events = parse_events(response.aiter_bytes())

    async def next(self) -> ServerSentEvent:
        async with asyncio.timeout(60):
            return await anext(self._events)

    async def next_text(self) -> str:
        return OutboundMessage.model_validate_json((await self.next()).data).text


async def test_a_message_is_stored_when_the_answer_comes(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    control.note = "The agent sleeps."
    answer = await client.post(SAY, json={"text": "hello"}, headers={"X-Choir-Language": "de"})
    assert answer.status_code == 202
    assert answer.json()["inbox_id"] == "in_0" and answer.json()["note"] == "The agent sleeps."
    (stored,) = control.inbox.values()
    assert (stored.gateway, stored.dm, stored.text) == ("console", "console", "hello")
    assert stored.language == "de"


async def test_a_bot_without_a_token_is_told_and_its_words_wait(
    gateway: ServiceProcess, client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    assert "no-such-secret" in (await client.get("/readyz")).text
    with pytest.raises(Unavailable, match="lacks a secret"):
        await control.say("alice", "hello")


async def test_a_repeated_key_stores_once_and_no_key_means_another_message(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    for _ in range(2):
        await client.post(SAY, json={"text": "a", "idempotency_key": "k"})
        await client.post(SAY, json={"text": "b"}, headers={"Idempotency-Key": "h"})
        await client.post(SAY, json={"text": "c"})
    assert sorted(m.text for m in control.inbox.values()) == ["a", "b", "c", "c"]


async def test_two_long_keys_that_begin_alike_are_two_messages(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    for end in "xy":
        key = "k" * 127 + end
        assert (await client.post(SAY, json={"text": end, "idempotency_key": key})).is_success
    assert len(control.inbox) == 2


BAD_BODIES = (
    (b"", 400),
    (b"not json", 400),
    (b"[]", 400),
    (b"{}", 400),
    (b'{"text": ""}', 400),
    (b'{"text": 5}', 400),
    (b'{"text": "x", "more": 1}', 400),
    (b'{"text": "\\ud800"}', 400),
    (b'\xff\xfe{"text"', 400),
    (json.dumps({"text": "x", "idempotency_key": "k" * 129}).encode(), 400),
    (json.dumps({"text": "x" * 100_001}).encode(), 400),
    (json.dumps({"text": "x" * 600_000}).encode(), 413),
)


async def test_bad_input_gets_a_problem_and_changes_nothing(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    for body, status in BAD_BODIES:
        answer = await client.post(SAY, content=body)
        assert answer.status_code == status, body[:80]
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] in ("bad_input", "too_large") and answer.json()["detail"]
    assert control.inbox == {}


async def test_a_body_that_never_says_its_length_is_cut_at_the_limit(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 10_000

    try:
        answer = await client.post(SAY, content=endless())
    except httpx2.HTTPError:
        return  # cut while we were still sending
    assert answer.status_code == 413


async def test_an_unknown_dm_or_one_of_telegram_is_not_found(client: httpx2.AsyncClient) -> None:
    for dm in ("nobody", "alice", "%2e%2e", "x" * 300):
        for answer in (
            await client.post(f"/v1/dms/{dm}/messages", json={"text": "x"}),
            await client.get(f"/v1/dms/{dm}/events"),
        ):
            assert answer.status_code == 404, dm
            assert answer.headers["content-type"] == "application/problem+json"


async def test_what_control_refuses_is_said_and_can_be_repeated(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    control.refusals = [Unavailable("Postgres is down; nothing was stored.")]
    answer = await client.post(SAY, json={"text": "x", "idempotency_key": "k"})
    assert answer.status_code == 503 and "Postgres" in answer.json()["detail"]
    assert (await client.post(SAY, json={"text": "x", "idempotency_key": "k"})).is_success


async def test_followers_hear_what_is_said_in_order_under_its_outbox_id(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": "0"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        listener = Listener(response)
        for text in ("one", "two\nlines", "three – ünïcode 😀"):
            await control.say("console", text)
        heard = [await listener.next() for _ in range(3)]
    assert [e.id for e in heard] == ["1", "2", "3"]
    texts = [OutboundMessage.model_validate_json(e.data).text for e in heard]
    assert texts == ["one", "two\nlines", "three – ünïcode 😀"]


async def test_a_report_is_told_from_an_answer(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": "0"}) as response:
        listener = Listener(response)
        await control.say("console", "the notes are read", "report")
        heard = OutboundMessage.model_validate_json((await listener.next()).data)
    assert (heard.kind, heard.answers) == ("report", None)


async def test_who_was_away_gets_what_was_missed_and_each_thing_once(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    for number in range(450):
        control.keep("console", f"{number}")
    async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": "3"}) as response:
        listener = Listener(response)
        assert [await listener.next_text() for _ in range(447)] == [str(n) for n in range(3, 450)]
        await control.deliver(control.outbox[-1])  # a delivery whose receipt was lost
        await control.say("console", "new")
        assert await listener.next_text() == "new"


async def test_nothing_is_lost_between_the_missed_and_the_live(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    async def talk() -> None:
        for number in range(100):
            await control.say("console", f"{number}")

    async with asyncio.TaskGroup() as group:
        talking = group.create_task(talk())
        seen: list[str] = []
        last = "0"
        while len(seen) < 100:
            async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": last}) as response:
                listener = Listener(response)
                for _ in range(min(7, 100 - len(seen))):
                    event = await listener.next()
                    seen.append(OutboundMessage.model_validate_json(event.data).text)
                    last = event.id
        await talking
    assert seen == [str(number) for number in range(100)]


async def test_a_killed_gateway_loses_nothing_for_its_followers(
    gateway: ServiceProcess, client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    await control.say("console", "before")
    await gateway.kill()
    control.keep("console", "meanwhile")
    await gateway.start()
    async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": "1"}) as response:
        assert await Listener(response).next_text() == "meanwhile"


async def test_a_bad_last_event_id_is_refused(client: httpx2.AsyncClient) -> None:
    for header in ("-1", "x", "1.5", "9" * 30):
        answer = await client.get(FOLLOW, headers={"Last-Event-ID": header})
        assert answer.status_code == 400, header


async def test_a_follower_that_does_not_read_is_cut_and_others_go_on(
    gateway: ServiceProcess, client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    assert gateway.process is not None
    _, writer = await asyncio.open_unix_connection(gateway.socket, limit=1)
    writer.write(f"GET {FOLLOW} HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0\r\n\r\n".encode())
    await writer.drain()
    before = psutil.Process(gateway.process.pid).memory_info().rss
    async with client.stream("GET", FOLLOW, headers={"Last-Event-ID": "0"}) as response:
        listener = Listener(response)
        for number in range(600):
            await control.say("console", f"{number} " + "x" * 20_000)
            assert (await listener.next_text()).startswith(f"{number} ")
    grown = psutil.Process(gateway.process.pid).memory_info().rss - before
    writer.close()
    assert grown < 40_000_000


async def test_the_gateway_waits_for_a_bus_that_starts_later_and_says_so(
    nats: EmbeddedNats,
) -> None:
    await nats.stop()
    async with service_process("choir_gateway", nats.url) as process:
        await process.spawn()
        async with make_client(process.endpoint) as client:
            await until_answers(client)
            assert (await client.get("/livez")).status_code == 200
            ready = await client.get("/readyz")
            assert ready.status_code == 503 and "NATS" in ready.text
            assert (await client.post(SAY, json={"text": "x"})).status_code == 503
        await nats.start()
        async with Bus(nats.url, BUS_KEY, "control") as bus:
            async with running_control(bus, channel_table()):
                async with asyncio.timeout(60):
                    while not await process.ready():
                        await asyncio.sleep(0.05)
        assert await process.stop() == 0, process.log


async def until_answers(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.get("/livez")
                return
            except httpx2.HTTPError:
                await asyncio.sleep(0.05)


async def test_over_tcp_the_operators_token_is_asked_for(
    nats: EmbeddedNats, control: ControlStandIn, find_port: Callable[[], int]
) -> None:
    port = find_port()
    async with service_process("choir_gateway", nats.url) as process:
        process.env["CHOIR_GATEWAY_HTTP"] = f"127.0.0.1:{port}"
        process.secrets = {"gateway_token": "right-token"}
        await process.spawn()
        async with make_client(f"http://127.0.0.1:{port}") as client:
            await until_answers(client)
            for token in (None, "", "wrong", "Bearer wrong", "Basic right-token", "Bearer"):
                headers = {"Authorization": token} if token is not None else {}
                for answer in (
                    await client.post(SAY, json={"text": "x"}, headers=headers),
                    await client.get(FOLLOW, headers=headers),
                    await client.get(SAY, headers=headers),
                ):
                    assert answer.status_code == 401, token
            assert control.inbox == {}
            right = {"Authorization": "Bearer right-token"}
            async with asyncio.timeout(60):
                while (await client.post(SAY, json={"text": "x"}, headers=right)).is_error:
                    await asyncio.sleep(0.05)
        assert await process.stop() == 0, process.log


@pytest.fixture
def find_port() -> Callable[[], int]:
    def find() -> int:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            return int(probe.getsockname()[1])

    return find


async def test_what_cannot_work_ends_the_process_with_one_clear_sentence(
    nats: EmbeddedNats,
) -> None:
    cases = {
        "gateway_token": {"CHOIR_GATEWAY_HTTP": "127.0.0.1:1"},
        "107": {"CHOIR_GATEWAY_SOCKET": "/tmp/" + "x" * 120},
        "gateway_http": {"CHOIR_GATEWAY_HTTP": "nonsense"},
    }
    for word, env in cases.items():
        async with service_process("choir_gateway", nats.url, env) as process:
            spawned = await process.spawn()
            assert await asyncio.wait_for(spawned.wait(), 60) == 1
            assert word in process.log and "Traceback" not in process.log, process.log
            assert process.log.count("\n") == 1


async def test_telegrams_library_is_imported_with_the_first_bot_and_not_before() -> None:
    code = "import choir_gateway.app, sys; sys.exit('telegram' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
