"""NATS endpoints of control: messages, presses, history, channels, memory's settings.

The gateway and the memory service call them.
"""

from collections.abc import Awaitable, Callable

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import InvalidRequest
from choir_common.wire.activity import CardMessage
from choir_common.wire.config import MemoryServiceConfig
from choir_common.wire.messages import (
    ButtonPress,
    ChannelCommand,
    ChannelTable,
    DeliveryProgress,
    Empty,
    HistoryRequest,
    InboundMessage,
    OutboundHistory,
    ReadChannels,
)
from choir_common.wire.money import ReleaseForMemory, ReserveForMemory, UsageReports
from choir_common.wire.pairing import RequestPairing
from choir_common.wire.triggers import MailOffer
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.bot_tokens import BotTokenPublisher
from choir_control.conversations.activity.publisher import ActivityPublisher
from choir_control.conversations.commands.spec import CommandScope
from choir_control.conversations.commands.table import commands_for
from choir_control.conversations.gateway_lease import GatewayLease
from choir_control.conversations.inbox.service import InboxService
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.conversations.pairing.buttons import PairingButtons
from choir_control.conversations.pairing.service import PairingService
from choir_control.conversations.triggers.mail import MailTriggerService
from choir_control.images.repositories.prompt_files import MemoryPromptReader
from choir_control.money.costs import CostService
from choir_control.money.memory_budgets import MemoryBudgetService

MAX_ID = 2**62


def make_bus_endpoints(
    *,
    configuration: ConfigService,
    inbox: InboxService,
    outbox: OutboxStore,
    activity: ActivityPublisher,
    buttons: PairingButtons,
    gateway_lease: GatewayLease,
    bot_tokens: BotTokenPublisher,
    memory_prompts: MemoryPromptReader,
    costs: CostService,
    memory_budgets: MemoryBudgetService,
) -> tuple[Endpoint, ...]:
    """Return control's endpoints."""

    async def history(request: HistoryRequest) -> OutboundHistory:
        if request.after > MAX_ID or "\x00" in request.dm:
            raise InvalidRequest("There is no such outbox id or DM.")
        return await outbox.read_history(request.dm, request.after, request.limit)

    async def keep_card(card: CardMessage) -> Empty:
        await activity.keep(card)
        return Empty()

    async def keep_progress(progress: DeliveryProgress) -> Empty:
        await outbox.store_progress(progress)
        return Empty()

    async def memory_orders(_: Empty) -> MemoryServiceConfig:
        prompts = await memory_prompts.read()
        return configuration.current.memory_orders().model_copy(update={"prompts": prompts})

    channels = _channels_handler(configuration, gateway_lease, bot_tokens)
    return (
        Endpoint(subjects.accept_message(), InboundMessage, inbox.accept),
        Endpoint(subjects.press_button(), ButtonPress, buttons.press),
        Endpoint(subjects.store_card(), CardMessage, keep_card),
        Endpoint(subjects.store_progress(), DeliveryProgress, keep_progress),
        Endpoint(subjects.read_history(), HistoryRequest, history),
        Endpoint(subjects.read_channels(), ReadChannels, channels),
        Endpoint(subjects.read_memory_settings(), Empty, memory_orders),
        Endpoint(subjects.report_usage(), UsageReports, costs.record),
        Endpoint(subjects.reserve_money(), ReserveForMemory, memory_budgets.reserve),
        Endpoint(subjects.release_money(), ReleaseForMemory, memory_budgets.release),
    )


def _channels_handler(
    configuration: ConfigService, lease: GatewayLease, bot_tokens: BotTokenPublisher
) -> Callable[[ReadChannels], Awaitable[ChannelTable]]:
    """Return the handler of a gateway that asks for the channels, and so for the lease to run them."""
    commands = list_channel_commands()

    async def channels(request: ReadChannels) -> ChannelTable:
        lease_s = await lease.ask(request)
        table = configuration.current.channels()
        if lease_s is None:
            return table.model_copy(update={"gateways": (), "dms": (), "standby": True})
        bot_tokens.record_version(request.tokens_version)
        return table.model_copy(update={"commands": commands, "lease_s": lease_s})

    return channels


def make_pairing_endpoint(pairing: PairingService) -> Endpoint:
    """Return the endpoint for requests of unknown users."""
    return Endpoint(subjects.request_pairing(), RequestPairing, pairing.request)


def make_mail_endpoint(mail: MailTriggerService) -> Endpoint:
    """Return the endpoint for mail of nobody in `dms`."""
    return Endpoint(subjects.offer_mail(), MailOffer, mail.offer)


def list_channel_commands() -> tuple[ChannelCommand, ...]:
    """Return the command table for channels; a command of two words appears under its first word."""
    commands: dict[str, ChannelCommand] = {}
    for row in commands_for("admin"):
        name = row.name.split()[0]
        command = ChannelCommand(
            name=name, summary=row.summary, admin=row.scope is not CommandScope.DM
        )
        commands.setdefault(name, command)
    return tuple(commands.values())
