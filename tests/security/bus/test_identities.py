"""What each service may do on the bus, tried with its own key at a real server: row S24."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.bus.permissions import inbox_prefix
from choir_common.errors import DeadlineExceeded
from choir_common.ids import SERVICE_NAMES, ServiceName
from choir_common.wire.messages import Empty
from choir_local.nats import EmbeddedNats
from tests.support.bus import BUS_KEY, SERVICE_KEYS
from tests.support.service_process import running_bus_server

FOREIGN = (
    *("choir.unknown", "choir.control", "choir.control.inbox", "elsewhere", "$SRV.PING"),
    *("$SRV.INFO.choir-control", "$JS.API.INFO", "$JS.API.STREAM.CREATE.x", "_INBOX.x"),
    *(f"{inbox_prefix(service)}.x.1" for service in SERVICE_NAMES),
)
"""Subjects beside the table; a service may receive its own inbox and discovery among them."""
WIDE = (">", "choir.>", "choir.control.>", "*.*.*", "*.>", "$JS.>")
ACCEPT, STATUS = subjects.accept_message(), subjects.browser_status()


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedNats]:
    async with running_bus_server() as server:
        yield server


class Wire:
    """A connection that records the messages it receives, by subject."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: dict[str, list[bytes]] = defaultdict(list)

    async def take(self, message: Msg) -> None:
        self.heard[message.subject].append(message.data)

    async def listen(self, *names: str) -> None:
        for name in names:
            await self.client.subscribe(name, cb=self.take)
        await self.settle()

    async def settle(self) -> None:
        """Return when the server has handled everything that was sent before."""
        await self.client.flush()
        await self.client.flush()


@pytest.fixture
async def wires(server: EmbeddedNats) -> AsyncIterator[dict[str, Wire]]:
    """Connections of all services, and of a tester who may do everything."""
    made = {}
    for name, key in {**SERVICE_KEYS, "tester": BUS_KEY}.items():
        client = await nats.connect(server.url, nkeys_seed_str=key, error_cb=ignore)
        made[name] = Wire(client)
    yield made
    for wire in made.values():
        await wire.client.close()


async def ignore(_: Exception) -> None:
    """Take the report of a violation; the tests look at what arrives."""


def discovery(service: str) -> set[str]:
    return {"$SRV.PING", f"$SRV.INFO.choir-{service}"} & set(FOREIGN)


async def test_each_service_publishes_to_its_own_subjects_and_to_no_other(
    wires: dict[str, Wire],
) -> None:
    tester = wires["tester"]
    await tester.listen(">")
    for service in SERVICE_NAMES:
        for subject in (*(route.subject for route in subjects.ROUTES), *FOREIGN):
            await wires[service].client.publish(subject, service.encode())
        await wires[service].settle()
    await tester.settle()
    heard = {(subject, who.decode()) for subject, whos in tester.heard.items() for who in whos}
    assert heard == {(route.subject, who) for route in subjects.ROUTES for who in route.publishers}


async def test_each_service_hears_its_own_subjects_and_no_other(wires: dict[str, Wire]) -> None:
    everything = {*(route.subject for route in subjects.ROUTES), *FOREIGN}
    for service in SERVICE_NAMES:
        await wires[service].listen(*everything, *WIDE)
    for subject in everything:
        await wires["tester"].client.publish(subject, b"for its owner")
    await wires["tester"].settle()
    for service in SERVICE_NAMES:
        await wires[service].settle()
        own = {route.subject for route in subjects.ROUTES if service in route.subscribers}
        own |= {f"{inbox_prefix(service)}.x.1"} | discovery(service)
        assert set(wires[service].heard) == own, service


async def test_a_service_answers_only_who_asked_it_and_only_once(
    server: EmbeddedNats, wires: dict[str, Wire]
) -> None:
    control, browser = wires["control"], wires["browser"]
    inbox, asked = f"{inbox_prefix('control')}.x.1", asyncio.Event()

    async def answer(message: Msg) -> None:
        for attempt in (b"first", b"second"):
            await browser.client.publish(message.reply, attempt)
        asked.set()

    await control.listen(inbox)
    await browser.client.publish(inbox, b"unasked")
    await browser.client.subscribe(STATUS, cb=answer)
    await browser.settle()
    await control.client.publish(STATUS, b"{}", reply=inbox)
    async with asyncio.timeout(30):
        await asked.wait()
    await browser.settle()
    await control.settle()
    assert control.heard == {inbox: [b"first"]}


class Inbox:
    """The part of control that takes messages."""

    def __init__(self) -> None:
        self.taken = 0

    async def accept(self, _: Empty) -> Empty:
        self.taken += 1
        return Empty()


@pytest.fixture
async def inbox(server: EmbeddedNats) -> AsyncIterator[Inbox]:
    inbox = Inbox()
    async with (
        Bus(server.url, SERVICE_KEYS["control"], "control") as bus,
        bus.serve("choir-control", "1.0.0", Endpoint(ACCEPT, Empty, inbox.accept)),
    ):
        yield inbox


@pytest.mark.parametrize("service", ["memory", "browser"])
async def test_a_users_message_that_another_service_forges_is_not_accepted(
    server: EmbeddedNats, inbox: Inbox, service: ServiceName
) -> None:
    async with Bus(server.url, SERVICE_KEYS[service], service) as forger:
        with pytest.raises(DeadlineExceeded):
            await forger.request(ACCEPT, Empty(), Empty, 0.2)
    async with Bus(server.url, SERVICE_KEYS["gateway"], "gateway") as gateway:
        await gateway.request(ACCEPT, Empty(), Empty, 30)
    assert inbox.taken == 1


async def test_no_request_makes_control_send_to_a_subject_that_only_control_may_use(
    inbox: Inbox, wires: dict[str, Wire]
) -> None:
    await wires["tester"].listen(subjects.memory_status())
    gateway = wires["gateway"]
    await gateway.client.publish(ACCEPT, b"{}", reply=subjects.memory_status())
    await gateway.listen(f"{inbox_prefix('gateway')}.>")
    answered = asyncio.Event()

    async def take(_: Msg) -> None:
        answered.set()

    await gateway.client.subscribe(f"{inbox_prefix('gateway')}.next", cb=take)
    await gateway.client.publish(ACCEPT, b"{}", reply=f"{inbox_prefix('gateway')}.next")
    async with asyncio.timeout(30):
        await answered.wait()
    await wires["tester"].settle()
    assert wires["tester"].heard == {} and inbox.taken == 1
