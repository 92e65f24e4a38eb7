"""The gateway's list of channels, in this process, over a real bus."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.errors import NotFound, Unavailable
from choir_common.wire.messages import ChannelTable, DmBinding, Empty, ReadChannels
from choir_control.conversations import gateway_lease
from choir_gateway import channel_registry
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_gateway.control_files import ControlFileClient
from choir_local.nats import EmbeddedNats
from tests.service.control.world import until
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.support.bus import BUS_KEY

LATE = DmBinding(name="late", gateway="console", user_id="late", admin=False)


class CountingSwitch:
    """The endpoints of a gateway: how often they were opened and closed."""

    opened = closed = 0

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1


class ChangingControl(ControlStandIn):
    """Control whose configuration changes while it answers the first question for its channels."""

    async def channels(self, request: ReadChannels) -> ChannelTable:
        answer = await super().channels(request)
        if LATE not in self.table.dms:
            self.table = channel_table(LATE)
            await self.bus.publish(subjects.channels_changed(), Empty())
        return answer


class SilentControl(ControlStandIn):
    """Control that grants the lease once, and then answers no more."""

    has_answered = False

    async def channels(self, request: ReadChannels) -> ChannelTable:
        if self.has_answered:
            await asyncio.sleep(3_600)
        self.has_answered = True
        return await super().channels(request)


def make_registry(control: NatsControlClient, spool: Path) -> ChannelRegistry:
    """Return the registry of a gateway with the console alone."""
    files = FileSpool(spool, SpoolLimits(1_000, 1_000, timedelta(days=1)))
    console = ConsoleChannel(control, files, ControlFileClient("http://127.0.0.1:1", None))
    return ChannelRegistry(
        control=control,
        conversations=ConversationDirectory(),
        factories={"console": ConsoleChannelFactory(console)},
        secrets={},
    )


async def test_a_gateway_that_control_does_not_answer_stops_by_its_own_clock(
    nats: EmbeddedNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_lease, "LEASE_S", 1.5)
    async with (
        Bus(nats.url, BUS_KEY, "control") as bus,
        running_control(bus, channel_table(), SilentControl(bus, channel_table())),
        Bus(nats.url, BUS_KEY, "gateway") as own,
    ):
        switch = CountingSwitch()
        registry = make_registry(NatsControlClient(own, "gw_1", "127.0.0.2"), tmp_path)
        start = time.monotonic()
        running = asyncio.create_task(registry.run(own, switch))

        async def stands_by() -> bool:
            return registry.is_standby

        try:
            await until(stands_by, 4.0)  # a request has 5 s
            assert time.monotonic() - start > 1.4
            assert (switch.opened, switch.closed) == (1, 1)
            with pytest.raises(Unavailable):
                registry.gateway_of("console")
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_a_change_that_comes_while_the_channels_are_read_is_read_at_once(
    nats: EmbeddedNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that only the publication can bring it
    monkeypatch.setattr(channel_registry, "REFRESH_INTERVAL_S", 3_600.0)
    async with (
        Bus(nats.url, BUS_KEY, "control") as bus,
        running_control(bus, channel_table(), ChangingControl(bus, channel_table())),
        Bus(nats.url, BUS_KEY, "gateway") as own,
    ):
        registry = make_registry(NatsControlClient(own, "gw_1"), tmp_path)
        running = asyncio.create_task(registry.run(own, CountingSwitch()))

        async def knows_the_late_one() -> bool:
            try:
                return registry.gateway_of("late") == "console"
            except (NotFound, Unavailable):
                return False

        try:
            await until(knows_the_late_one, 60)
        finally:
            running.cancel()
            await asyncio.wait([running])
