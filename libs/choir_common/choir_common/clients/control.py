"""Clients of control over NATS and HTTP: messages and presses, sent files, the memory service's settings.

Control keeps a copy of a sent file from the moment the message is durable until it is delivered.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.http.client import stream_download
from choir_common.wire.activity import CardMessage
from choir_common.wire.config import MemoryServiceConfig
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    ChannelTable,
    DeliveryProgress,
    Empty,
    HistoryRequest,
    InboundAccepted,
    InboundMessage,
    OutboundHistory,
    ReadChannels,
)
from choir_common.wire.money import (
    MoneyReserved,
    ReleaseForMemory,
    ReserveForMemory,
    UsageReports,
)
from choir_common.wire.pairing import PairingOffer, RequestPairing
from choir_common.wire.triggers import MailDecision, MailOffer

TIMEOUT_S = 5.0
LEAVE_WITHIN_S = 1.0


class ControlClient(Protocol):
    """Control's requests that a channel needs."""

    async def accept(self, message: InboundMessage) -> InboundAccepted: ...

    async def history(self, request: HistoryRequest) -> OutboundHistory: ...

    async def channels(self, tokens_version: int = 0) -> ChannelTable: ...

    async def press(self, press: ButtonPress) -> ButtonResponse: ...

    async def keep_card(self, card: CardMessage) -> None: ...

    async def keep_progress(self, progress: DeliveryProgress) -> None: ...

    async def request_pairing(self, request: RequestPairing) -> PairingOffer: ...

    async def offer_mail(self, offer: MailOffer) -> MailDecision: ...


class NatsControlClient:
    """Control over NATS."""

    def __init__(self, bus: Bus, instance: str = "", address: str = "") -> None:
        """`instance` identifies this gateway process; empty: control does not detect its restarts.

        `address` is its IP address, if several processes share the channels by a lease.
        """
        self._bus = bus
        self._instance = instance
        self._address = address

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        """Store a message; returns once it is durable. Safe to repeat.

        Raises NotFound for an unknown DM, Unavailable if nothing was stored.
        """
        return await self._bus.request(
            subjects.accept_message(), message, InboundAccepted, TIMEOUT_S
        )

    async def history(self, request: HistoryRequest) -> OutboundHistory:
        """Return a DM's outbound messages after an id."""
        return await self._bus.request(subjects.read_history(), request, OutboundHistory, TIMEOUT_S)

    async def channels(self, tokens_version: int = 0) -> ChannelTable:
        """Return the configured gateways and DMs; reports which tokens the gateway has."""
        request = ReadChannels(
            tokens_version=tokens_version, instance=self._instance, address=self._address
        )
        return await self._bus.request(subjects.read_channels(), request, ChannelTable, TIMEOUT_S)

    async def leave(self) -> None:
        """End this process's lease, so that another one works at once. Raises Unavailable."""
        request = ReadChannels(instance=self._instance, address=self._address, leaving=True)
        await self._bus.request(subjects.read_channels(), request, ChannelTable, LEAVE_WITHIN_S)

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Carry out the action of a button; returns once it is durable. Safe to repeat.

        A forged, used or foreign button does nothing; the response is the same as for any other.
        """
        return await self._bus.request(subjects.press_button(), press, ButtonResponse, TIMEOUT_S)

    async def keep_card(self, card: CardMessage) -> None:
        """Store the id of the message that shows a progress card, for use after a restart."""
        await self._bus.request(subjects.store_card(), card, Empty, TIMEOUT_S)

    async def keep_progress(self, progress: DeliveryProgress) -> None:
        """Store a message's delivery progress, for use after a restart. Safe to repeat."""
        await self._bus.request(subjects.store_progress(), progress, Empty, TIMEOUT_S)

    async def request_pairing(self, request: RequestPairing) -> PairingOffer:
        """Return what an unknown user is told; admins are notified of a new request."""
        return await self._bus.request(subjects.request_pairing(), request, PairingOffer, TIMEOUT_S)

    async def offer_mail(self, offer: MailOffer) -> MailDecision:
        """Store a mail for the triggers that take it; returns once it is durable. Safe to repeat."""
        return await self._bus.request(subjects.offer_mail(), offer, MailDecision, TIMEOUT_S)


PATH = "/v1/outbox/{outbox_id}/files/{ref}"
"""Route of `GET`; requires the operator token over TCP."""


class OutboxFilesClient(Protocol):
    """Attachments of messages that are not delivered yet."""

    def open(
        self, outbox_id: int, ref: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpOutboxFilesClient:
    """Control's file endpoint over HTTP."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """`client` must have control's address and the operator token."""
        self._client = client

    @contextlib.asynccontextmanager
    async def open(self, outbox_id: int, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of an attachment, as many as its `size`.

        Raises NotFound if the message has been delivered or has no such file, Unavailable if control may be
        asked again.
        """
        async with stream_download(
            self._client, PATH.format(outbox_id=outbox_id, ref=ref)
        ) as pieces:
            yield pieces


class UsageClient(Protocol):
    """Control's ledger, for services whose calls of providers are in no session's log."""

    async def report_usage(self, reports: UsageReports) -> None: ...

    async def reserve_money(self, request: ReserveForMemory) -> MoneyReserved: ...

    async def release_money(self, request: ReleaseForMemory) -> None: ...


class NatsUsageClient:
    """Control over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def report_usage(self, reports: UsageReports) -> None:
        """Store usage; returns once it is durable. Safe to repeat."""
        await self._bus.request(subjects.report_usage(), reports, Empty, TIMEOUT_S)

    async def reserve_money(self, request: ReserveForMemory) -> MoneyReserved:
        """Reserve money for a call, or return the budget that does not allow it. Safe to repeat."""
        return await self._bus.request(subjects.reserve_money(), request, MoneyReserved, TIMEOUT_S)

    async def release_money(self, request: ReleaseForMemory) -> None:
        """Give back the money of a call that was not billed."""
        await self._bus.request(subjects.release_money(), request, Empty, TIMEOUT_S)


class NatsMemorySettingsClient:
    """Control over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def read(self) -> MemoryServiceConfig:
        """Return memory's part of the configuration; raises Unavailable while control is down."""
        return await self._bus.request(
            subjects.read_memory_settings(), Empty(), MemoryServiceConfig, TIMEOUT_S
        )
