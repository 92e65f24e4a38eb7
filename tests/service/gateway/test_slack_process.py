"""Slack through the gateway as a process: restarts, tokens, and when its library is loaded."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.bus.client import Bus
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices, ConversationDirectory
from choir_gateway.channels.slack.factory import SlackChannelFactory
from choir_local.nats import EmbeddedNats
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.slack import FakeSlack, run_fake_slack
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.support.bus import BUS_KEY
from tests.support.service_process import ServiceProcess, service_process

BOT_TOKEN, APP_TOKEN = "xoxb-process-secret", "xapp-process-secret"
GATEWAY = GatewayBinding(name="bot", type="slack", secret="token", app_secret="app", api_url=None)


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with run_fake_slack(BOT_TOKEN, APP_TOKEN) as fake:
        fake.user("U7")
        yield fake


@pytest.fixture
async def slack_control(nats: EmbeddedNats, slack: FakeSlack) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        GATEWAY.model_copy(update={"api_url": slack.api_url}),
        DmBinding(name="alice", gateway="bot", user_id="U7", admin=True),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


@pytest.fixture
async def slack_gateway(
    nats: EmbeddedNats, slack_control: ControlStandIn
) -> AsyncIterator[ServiceProcess]:
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"secrets": {"token": BOT_TOKEN, "app": APP_TOKEN}}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        assert BOT_TOKEN not in process.log and APP_TOKEN not in process.log
        assert "ticket=" not in process.log


async def until_opened(slack: FakeSlack, count: int) -> None:
    async with asyncio.timeout(60):
        while slack.app.sockets.opened < count:
            await asyncio.sleep(0.02)


async def until_arrived(control: ControlStandIn, count: int) -> None:
    async with asyncio.timeout(60):
        # a message that arrives again, because its gateway was killed, is in the inbox once
        while len(control.inbox) < count:
            await asyncio.sleep(0.02)


async def test_a_killed_gateway_loses_and_doubles_nothing(
    slack_gateway: ServiceProcess, slack_control: ControlStandIn, slack: FakeSlack
) -> None:
    alice = slack.user("U7")
    await until_opened(slack, 1)
    await alice.send("one")
    await until_arrived(slack_control, 1)
    await slack_gateway.kill()
    await alice.send("two")
    await slack_gateway.start()
    await until_opened(slack, 2)
    await alice.send("three")
    await until_arrived(slack_control, 3)
    assert [message.text for message in slack_control.inbox.values()] == ["one", "two", "three"]
    receipt = await slack_control.say("alice", "hello")
    assert (receipt.status, (await alice.receive()).text) == ("delivered", "hello")


async def test_a_note_of_control_is_sent_as_a_quotation(
    slack_gateway: ServiceProcess, slack_control: ControlStandIn, slack: FakeSlack
) -> None:
    await until_opened(slack, 1)
    slack_control.note = "Nobody answers now."
    await slack.user("U7").send("hello")
    assert (await slack.user("U7").receive()).quotes == ["Nobody answers now."]


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        (ChannelSecrets(BOT_TOKEN), "needs a bot token and an app-level token"),
        (ChannelSecrets(APP_TOKEN, app=APP_TOKEN), "'token' is not a bot token"),
        (ChannelSecrets(BOT_TOKEN, app=BOT_TOKEN), "'app' is not an app-level token"),
    ],
)
def test_tokens_of_the_wrong_kind_are_refused_at_once(
    secrets: ChannelSecrets, words: str, tmp_path: Path
) -> None:
    control, files = FakeControlClient(channel_table()), FakeOutboxFiles()
    factory = SlackChannelFactory(
        ChannelServices(control, files, ConversationDirectory(), tmp_path)
    )
    with pytest.raises(ValueError, match=words):
        factory.make(GATEWAY, secrets)


def test_the_library_is_not_loaded_without_a_slack_gateway() -> None:
    code = (
        "import sys, choir_gateway.app; print('slack_sdk' in sys.modules, 'aiohttp' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]
