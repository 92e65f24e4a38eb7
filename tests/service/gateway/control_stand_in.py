"""Control as the gateway sees it, on a real bus: an inbox, an outbox with its history, the channels."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.clients.gateway import NatsGatewayClient
from choir_common.clock import SystemClock
from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, CardMessage, DmActivity, Idle, Typing
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    ChannelTable,
    DeliveryProgress,
    DeliveryReceipt,
    DmBinding,
    Empty,
    GatewayBinding,
    HistoryRequest,
    InboundAccepted,
    InboundMessage,
    OutboundHistory,
    OutboundMessage,
    ReadChannels,
)
from choir_common.wire.pairing import PairingOffer, RequestPairing
from choir_control.conversations.gateway_lease import GatewayAddress, GatewayInstance, GatewayLease


class HoldersInMemory:
    """The stored holder of the lease."""

    def __init__(self, holder: GatewayInstance | None = None) -> None:
        self.holder = holder or GatewayInstance()

    async def read(self) -> GatewayInstance:
        return self.holder

    async def write(self, holder: GatewayInstance) -> None:
        self.holder = holder


@dataclass
class ControlStandIn:
    """Accepts, remembers and says; `refusals` are raised first, one a call."""

    bus: Bus
    table: ChannelTable
    inbox: dict[tuple[str, str], InboundMessage] = field(default_factory=dict)
    arrivals: list[InboundMessage] = field(default_factory=list)
    outbox: list[OutboundMessage] = field(default_factory=list)
    refusals: list[ChoirError] = field(default_factory=list)
    note: str | None = None
    tokens_version: int = 0
    presses: list[ButtonPress] = field(default_factory=list)
    cards: list[CardMessage] = field(default_factory=list)
    progress: list[DeliveryProgress] = field(default_factory=list)
    gateway: NatsGatewayClient = field(init=False)
    route: GatewayAddress = field(default_factory=GatewayAddress)
    lease: GatewayLease = field(init=False)

    def __post_init__(self) -> None:
        self.gateway = NatsGatewayClient(self.bus)
        self.lease = GatewayLease(
            HoldersInMemory(),
            gateway=self.gateway,
            route=self.route,
            bus=self.bus,
            clock=SystemClock(),
        )

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        if self.refusals:
            raise self.refusals.pop(0)
        self.arrivals.append(message)
        key = (message.gateway, message.update_id)
        known = key in self.inbox
        self.inbox.setdefault(key, message)
        return InboundAccepted(
            inbox_id=f"in_{list(self.inbox).index(key)}",
            duplicate=known,
            agent_id="main",
            agent_state="running",
            note=self.note,
        )

    async def history(self, request: HistoryRequest) -> OutboundHistory:
        of_dm = [m for m in self.outbox if m.dm == request.dm]
        newer = [m for m in of_dm if m.outbox_id > request.after]
        last = of_dm[-1].outbox_id if of_dm else 0
        return OutboundHistory(messages=tuple(newer[: request.limit]), last=last)

    async def channels(self, request: ReadChannels) -> ChannelTable:
        if (lease_s := await self.lease.ask(request)) is None:
            return ChannelTable(config_version=1, gateways=(), dms=(), standby=True)
        self.tokens_version = request.tokens_version
        return self.table.model_copy(update={"lease_s": lease_s})

    async def press(self, press: ButtonPress) -> ButtonResponse:
        if self.refusals:
            raise self.refusals.pop(0)
        self.presses.append(press)
        return ButtonResponse(answer=f"pressed {press.data}")

    async def keep_card(self, card: CardMessage) -> Empty:
        self.cards.append(card)
        return Empty()

    async def keep_progress(self, progress: DeliveryProgress) -> Empty:
        self.progress.append(progress)
        return Empty()

    async def request_pairing(self, request: RequestPairing) -> PairingOffer:
        return PairingOffer()

    async def show(self, dm: str, what: Typing | Idle | Card) -> None:
        """Tell all gateways what goes on in a DM."""
        binding = next(found for found in self.table.dms if found.name == dm)
        activity = DmActivity(dm=dm, gateway=binding.gateway, what=what)
        await self.bus.publish(subjects.dm_activity(), activity)

    async def change(self, table: ChannelTable) -> None:
        """Apply another configuration and say so."""
        self.table = table
        await self.bus.publish(subjects.channels_changed(), Empty())

    def keep(
        self, dm: str, text: str, *, maybe_repeated: bool = False, kind: ReplyKind = "answer"
    ) -> OutboundMessage:
        """Make an outbox row, not delivered."""
        binding = next(found for found in self.table.dms if found.name == dm)
        message = OutboundMessage(
            outbox_id=len(self.outbox) + 1,
            dm=dm,
            gateway=binding.gateway,
            agent_id="main",
            session_id="s",
            rev=len(self.outbox) + 1,
            kind=kind,
            text=text,
            answers=None,
            at=datetime.now(UTC),
            maybe_repeated=maybe_repeated,
        )
        self.outbox.append(message)
        return message

    async def say(self, dm: str, text: str, kind: ReplyKind = "answer") -> DeliveryReceipt:
        """Make an outbox row and deliver it."""
        return await self.deliver(self.keep(dm, text, kind=kind))

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        """Deliver a row, as often as asked."""
        return await self.gateway.deliver(message)


@contextlib.asynccontextmanager
async def running_control(
    bus: Bus, table: ChannelTable, made: ControlStandIn | None = None
) -> AsyncIterator[ControlStandIn]:
    """Answer as control on `bus` until the block ends, by the stand-in given or a new one."""
    stand_in = made or ControlStandIn(bus, table)
    endpoints = (
        Endpoint(subjects.accept_message(), InboundMessage, stand_in.accept),
        Endpoint(subjects.read_history(), HistoryRequest, stand_in.history),
        Endpoint(subjects.read_channels(), ReadChannels, stand_in.channels),
        Endpoint(subjects.press_button(), ButtonPress, stand_in.press),
        Endpoint(subjects.store_card(), CardMessage, stand_in.keep_card),
        Endpoint(subjects.store_progress(), DeliveryProgress, stand_in.keep_progress),
        Endpoint(subjects.request_pairing(), RequestPairing, stand_in.request_pairing),
    )
    async with bus.serve("choir-control", "1.0.0", *endpoints):
        yield stand_in


def bot_gateway(name: str, secret: str, api_url: str) -> GatewayBinding:
    """Configure a Telegram bot."""
    return GatewayBinding(name=name, type="telegram", secret=secret, api_url=api_url)


CONSOLE = GatewayBinding(name="console", type="console", secret=None, api_url=None)
CONSOLE_DM = DmBinding(name="console", gateway="console", user_id="operator", admin=True)


def channel_table(*more: GatewayBinding | DmBinding) -> ChannelTable:
    """Configure the console, and what else is given."""
    gateways = (CONSOLE, *(m for m in more if isinstance(m, GatewayBinding)))
    dms = (CONSOLE_DM, *(m for m in more if isinstance(m, DmBinding)))
    return ChannelTable(config_version=1, gateways=gateways, dms=dms)
