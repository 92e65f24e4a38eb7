"""A new channel type is one folder (`echo_channel`) and one row in each table: properties and factory."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.wire.channel_types import CHANNEL_TYPES, ChannelProperties
from choir_common.wire.config import GatewayConfig
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_gateway.api.http_app import make_bus_endpoints
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.factories import make_channel_factories
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_gateway.control_files import ControlFileClient
from choir_local.nats import EmbeddedNats
from tests.service.control.world import until
from tests.service.gateway.control_stand_in import channel_table, running_control
from tests.service.gateway.echo_channel.channel import EchoChannelFactory
from tests.support.bus import BUS_KEY

ECHO = ChannelProperties(
    label="Echo",
    needs_token=False,
    needs_address=False,
    has_webhook=False,
    has_reactions=False,
    uses_choir_api=False,
    is_idempotent=False,
)


async def test_a_new_channel_type_receives_and_sends_messages(
    nats: EmbeddedNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = (
        "Input should be 'telegram', 'discord', 'slack', 'matrix', 'email', 'whatsapp', 'signal', "
        "'console' or 'webhook'"
    )
    with pytest.raises(ValidationError, match=expected):
        GatewayConfig.model_validate({"type": "echo"})
    monkeypatch.setitem(CHANNEL_TYPES, "echo", ECHO)
    assert GatewayConfig.model_validate({"type": "echo"}).channel is ECHO
    table = channel_table(
        GatewayBinding(name="hall", type="echo", secret=None, api_url=None),
        DmBinding(name="alice", gateway="hall", user_id="7", admin=False),
    )
    async with (
        Bus(nats.url, BUS_KEY, "control") as control_bus,
        running_control(control_bus, table) as stand_in,
        Bus(nats.url, BUS_KEY, "gateway") as bus,
    ):
        control, conversations = NatsControlClient(bus, "gw_1"), ConversationDirectory()
        files = ControlFileClient("http://127.0.0.1:1", None)
        spool = FileSpool(tmp_path, SpoolLimits(1_000, 1_000, timedelta(days=1)))
        console = ConsoleChannel(control, spool, files)
        factories = make_channel_factories(
            ChannelServices(control, files, conversations, tmp_path), console=console, spool=spool
        )
        echo = factories["echo"] = EchoChannelFactory(control, conversations)
        registry = ChannelRegistry(
            control=control, conversations=conversations, factories=factories, secrets={}
        )
        async with bus.serve("choir-gateway", "1.0.0", *make_bus_endpoints(registry, console)):
            running = asyncio.create_task(registry.run(bus))

            async def is_running() -> bool:
                return "hall" in echo.channels

            try:
                await until(is_running, 60)
                hall = echo.channels["hall"]
                assert await hall.receive("7", "1", "hello") is not None
                assert await hall.receive("8", "2", "a stranger") is None
                assert [(it.dm, it.text) for it in stand_in.arrivals] == [("alice", "hello")]
                receipt = await stand_in.say("alice", "hello to you")
                assert receipt.status == "delivered"
                assert hall.delivered == [("7", "hello to you")]
                assert "hall" in [it.name for it in registry.state()]
            finally:
                running.cancel()
                await asyncio.wait([running])


def test_each_channel_type_has_a_factory(tmp_path: Path) -> None:
    bus = Bus("nats://127.0.0.1:1", BUS_KEY, "gateway")
    control, files = NatsControlClient(bus, "gw_1"), ControlFileClient("http://127.0.0.1:1", None)
    spool = FileSpool(tmp_path, SpoolLimits(1_000, 1_000, timedelta(days=1)))
    factories = make_channel_factories(
        ChannelServices(control, files, ConversationDirectory(), tmp_path),
        console=ConsoleChannel(control, spool, files),
        spool=spool,
    )
    assert factories.keys() == CHANNEL_TYPES.keys(), (
        "give each type a row in choir_common/wire/channel_types.py and "
        "choir_gateway/channels/factories.py"
    )
