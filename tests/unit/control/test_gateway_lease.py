"""The lease of the gateway that works: who gets it, when, and where control leads its requests."""

import httpx2
import pytest

from choir_common.bus.client import Bus
from choir_common.clients.gateway import NatsGatewayClient
from choir_common.clock import SystemClock
from choir_common.errors import Unavailable
from choir_common.wire.messages import ReadChannels
from choir_control.conversations.gateway_lease import (
    FREE_AFTER_S,
    LEASE_S,
    GatewayAddress,
    GatewayInstance,
    GatewayLease,
)
from tests.service.gateway.control_stand_in import HoldersInMemory


class HandClock(SystemClock):
    """A monotonic clock that a test sets."""

    at = 1_000.0

    def monotonic(self) -> float:
        return self.at


class Office:
    """A lease with its clock, its stored holder and its route."""

    def __init__(self, stored: GatewayInstance | None = None) -> None:
        self.clock, self.route, self.holders = (
            HandClock(),
            GatewayAddress(),
            HoldersInMemory(stored),
        )
        bus = Bus("nats://127.0.0.1:1", None, "control")
        self.lease = GatewayLease(
            self.holders,
            gateway=NatsGatewayClient(bus),
            route=self.route,
            bus=bus,
            clock=self.clock,
        )

    async def ask(self, name: str, *, leaving: bool = False) -> float | None:
        number = "abc".index(name) + 1
        return await self.lease.ask(
            ReadChannels(instance=name, address=f"10.0.0.{number}", leaving=leaving)
        )


async def test_one_gateway_works_and_the_others_wait_until_it_is_silent() -> None:
    office = Office()
    assert [await office.ask(name) for name in "abca"] == [LEASE_S, None, None, LEASE_S]
    office.clock.at += FREE_AFTER_S - 0.1
    assert [await office.ask("b"), await office.ask("a")] == [None, LEASE_S]
    office.clock.at += FREE_AFTER_S
    assert [await office.ask("b"), await office.ask("a")] == [LEASE_S, None]
    assert office.holders.holder == GatewayInstance("b", "10.0.0.2")
    # the holder stops by its own clock before that
    assert LEASE_S + 1 < FREE_AFTER_S


async def test_a_gateway_that_leaves_is_replaced_at_once_and_only_by_its_own_word() -> None:
    office = Office()
    assert await office.ask("a") == LEASE_S
    assert await office.ask("b", leaving=True) is None
    assert await office.ask("b") is None
    assert await office.ask("a", leaving=True) is None
    assert await office.ask("b") == LEASE_S


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_new_leader_lets_the_holder_ask_first(name: str) -> None:
    office = Office(GatewayInstance("a", "10.0.0.1"))
    assert await office.ask(name) == (LEASE_S if name == "a" else None)
    office.clock.at += FREE_AFTER_S
    assert await office.ask("b") == LEASE_S


async def test_a_gateway_without_an_address_works_at_once() -> None:
    office = Office(GatewayInstance("a", "10.0.0.1"))
    assert await office.lease.ask(ReadChannels(instance="only")) == 0.0
    assert office.route.address == ""


async def test_a_holder_that_could_not_be_stored_does_not_work() -> None:
    office = Office()

    async def fail(_: GatewayInstance) -> None:
        raise Unavailable

    office.holders.write = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(Unavailable):
        await office.ask("a")
    del office.holders.write
    assert await office.ask("b") == LEASE_S


async def test_requests_are_led_to_the_holder_by_host_alone() -> None:
    office, request = Office(), httpx2.Request("GET", "http://gateway:9401/v1/files/bot?ref=1")
    await office.route.lead(request)
    assert request.url.host == "gateway"
    await office.ask("b")
    await office.route.lead(request)
    assert str(request.url) == "http://10.0.0.2:9401/v1/files/bot?ref=1"
