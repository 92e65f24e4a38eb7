"""NATS endpoints of control: messages, presses, history, channels, memory's settings.

Served by `app` to the gateway and to memory.
"""

from collections.abc import Callable

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import BadInput
from choir_common.wire.activity import KeptCard
from choir_common.wire.memory_orders import MemoryOrders
from choir_common.wire.messages import (
    ChannelCommand,
    ChannelsRequest,
    ChannelTable,
    History,
    HistoryRequest,
    InboundMessage,
    Nothing,
    PartlySent,
    Press,
)
from choir_control.approvals.press import Buttons
from choir_control.bus_doors.conversations import Conversations
from choir_control.commands.row import Scope
from choir_control.commands.table import rows_for
from choir_control.configuration.current import Configuration
from choir_control.inbox.accept import Inbox

MAX_ID = 2**62


def bus_endpoints(
    inbox: Inbox,
    talks: Conversations,
    configuration: Configuration,
    heard: Callable[[int], None],
    buttons: Buttons,
) -> tuple[Endpoint, ...]:
    """Return control's endpoints; `heard` receives the version of the bot tokens that the gateway has."""

    commands = channel_commands()

    async def history(request: HistoryRequest) -> History:
        if request.after > MAX_ID or "\x00" in request.dm:
            raise BadInput("There is no such outbox id or DM.")
        return await talks.outbox_store.history(request.dm, request.after, request.limit)

    async def channels(request: ChannelsRequest) -> ChannelTable:
        heard(request.tokens_version)
        talks.gateway.note_instance(request.instance)
        return configuration.current.channels().model_copy(update={"commands": commands})

    async def keep_card(card: KeptCard) -> Nothing:
        await talks.activity.keep(card)
        return Nothing()

    async def keep_progress(progress: PartlySent) -> Nothing:
        await talks.outbox_store.progress(progress)
        return Nothing()

    async def memory_orders(_: Nothing) -> MemoryOrders:
        return configuration.current.memory_orders()

    return (
        Endpoint(subjects.accept_message(), InboundMessage, inbox.accept),
        Endpoint(subjects.press_button(), Press, buttons.press),
        Endpoint(subjects.keep_card(), KeptCard, keep_card),
        Endpoint(subjects.keep_progress(), PartlySent, keep_progress),
        Endpoint(subjects.read_history(), HistoryRequest, history),
        Endpoint(subjects.read_channels(), ChannelsRequest, channels),
        Endpoint(subjects.read_memory_orders(), Nothing, memory_orders),
    )


def channel_commands() -> tuple[ChannelCommand, ...]:
    """Return the command table for channels; a command of two words appears under its first word."""
    found: dict[str, ChannelCommand] = {}
    for row in rows_for(is_admin=True):
        name = row.name.split()[0]
        command = ChannelCommand(name=name, summary=row.summary, admin=row.scope is not Scope.DM)
        found.setdefault(name, command)
    return tuple(found.values())
