"""The gateway's list of channels, in this process, over a real bus."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.errors import NotFound, Unavailable
from choir_common.wire.messages import ChannelTable, DmBinding, Empty, ReadChannels
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


class ChangingControl(ControlStandIn):
    """Control whose configuration changes while it answers the first question for its channels."""

    async def channels(self, request: ReadChannels) -> ChannelTable:
        answer = await super().channels(request)
        if LATE not in self.table.dms:
            self.table = channel_table(LATE)
            await self.bus.publish(subjects.channels_changed(), Empty())
        return answer


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
        control = NatsControlClient(own, "gw_1")
        spool = FileSpool(tmp_path, SpoolLimits(1_000, 1_000, timedelta(days=1)))
        console = ConsoleChannel(control, spool, ControlFileClient("http://127.0.0.1:1", None))
        registry = ChannelRegistry(
            control=control,
            conversations=ConversationDirectory(),
            factories={"console": ConsoleChannelFactory(console)},
            secrets={},
        )
        running = asyncio.create_task(registry.run(own))

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
