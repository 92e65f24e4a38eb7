"""Messages of the console: as many at a time as a NATS endpoint takes, and only those of consoles."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from choir_common.errors import NotFound
from choir_common.http.console_messages import ConsoleMessage
from choir_common.wire.messages import InboundAccepted, InboundMessage
from choir_control.configuration.current import ConfigService
from choir_control.conversations.inbox.console import MAX_CONCURRENT, ConsoleInbox
from choir_control.conversations.inbox.service import InboxService

GATEWAYS = {"console": True, "telegram": False}


class SlowInbox:
    """An inbox that stores nothing until it may, and knows how many wait for it."""

    def __init__(self) -> None:
        self.stored: list[InboundMessage] = []
        self.under_way = 0
        self.may_store = asyncio.Event()

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        self.under_way += 1
        await self.may_store.wait()
        self.under_way -= 1
        self.stored.append(message)
        return InboundAccepted(
            inbox_id="m", duplicate=False, agent_id="main", agent_state="running"
        )


def make_console(inbox: SlowInbox) -> ConsoleInbox:
    channels = {
        name: SimpleNamespace(channel=SimpleNamespace(uses_choir_api=is_console))
        for name, is_console in GATEWAYS.items()
    }
    current = SimpleNamespace(
        gateway_of=lambda dm: dm if dm in GATEWAYS else None,
        config=SimpleNamespace(dms=GATEWAYS, gateways=channels),
    )
    configuration: Any = SimpleNamespace(current=current)
    return ConsoleInbox(cast("InboxService", inbox), cast("ConfigService", configuration))


async def test_more_messages_than_fit_wait_and_all_are_stored() -> None:
    inbox = SlowInbox()
    console = make_console(inbox)
    count = MAX_CONCURRENT + 10
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            message = ConsoleMessage(key=f"k{number}", text="hello")
            tasks.create_task(console.accept("console", message))
        for _ in range(3):  # until each task waits
            await asyncio.sleep(0)
        assert inbox.under_way == MAX_CONCURRENT
        inbox.may_store.set()
    assert {it.update_id for it in inbox.stored} == {
        f"console:k{number}" for number in range(count)
    }


@pytest.mark.parametrize("dm", ["telegram", "nobody"])
async def test_only_conversations_of_a_console_are_reached(dm: str) -> None:
    inbox = SlowInbox()
    with pytest.raises(NotFound, match=dm):
        await make_console(inbox).accept(dm, ConsoleMessage(key="k", text="hello"))
    assert inbox.under_way == 0
