"""Clients of the gateway: deliveries over NATS, and users' attachments over HTTP.

Control puts the files into a workspace. The bot's token never leaves the gateway, which requests the file
from the channel and streams the bytes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import OutcomeUnknown
from choir_common.http.client import stream_download
from choir_common.i18n import _
from choir_common.wire.erasure import DmFilesErased, EraseDmFiles
from choir_common.wire.messages import DeliveryReceipt, OutboundMessage

# A long Telegram message takes this long under its rate limits.
TIMEOUT_S = 60.0


class GatewayClient(Protocol):
    """Delivery of messages to users."""

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt: ...

    async def erase_files(self, request: EraseDmFiles) -> DmFilesErased: ...


class NatsGatewayClient:
    """The gateway over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._instance = ""
        self._in_flight: set[asyncio.Timeout] = set()
        bus.watch_connection(self)

    def set_instance(self, instance: str) -> None:
        """Record which gateway process runs; a new one cannot respond to an earlier one's requests.

        Pending deliveries then fail at once. Call this before the new process receives its channels: until
        then it delivers nothing.
        """
        if instance in ("", self._instance):
            return
        replaced, self._instance = self._instance, instance
        if replaced:
            self._end_in_flight()

    def note_disconnected(self) -> None:
        """End the deliveries in flight: the gateway cannot answer over a broken connection."""
        self._end_in_flight()

    def _end_in_flight(self) -> None:
        now = asyncio.get_running_loop().time()
        for delivery in self._in_flight:
            delivery.reschedule(now)
        self._in_flight.clear()

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        """Deliver a message through its channel.

        Raises Unavailable or RateLimited if it was certainly not sent, DeadlineExceeded or OutcomeUnknown
        if it may have been.
        """
        try:
            async with asyncio.timeout(None) as delivery:
                self._in_flight.add(delivery)
                try:
                    return await self._bus.request(
                        subjects.deliver_message(), message, DeliveryReceipt, TIMEOUT_S
                    )
                finally:
                    # An expired timeout must not be rescheduled.
                    self._in_flight.discard(delivery)
        except TimeoutError as error:
            raise OutcomeUnknown(
                _("The gateway was restarted or the bus connection was lost during the delivery.")
            ) from error

    async def erase_files(self, request: EraseDmFiles) -> DmFilesErased:
        """Delete the files of a DM; repeating it deletes what came since."""
        return await self._bus.request(
            subjects.erase_gateway_files(), request, DmFilesErased, TIMEOUT_S
        )


PATH = "/v1/files/{gateway}"
"""Route of `GET`, with `?ref=`; requires the operator token."""


class GatewayFilesClient(Protocol):
    """Attachments that the channels have."""

    def open(self, gateway: str, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpGatewayFilesClient:
    """The gateway's file endpoint over HTTP."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """`client` must have the gateway's address and the operator token."""
        self._client = client

    @contextlib.asynccontextmanager
    async def open(self, gateway: str, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of an inbound attachment; the caller must limit how much it reads.

        Raises NotFound if the channel no longer has it, TooLarge if the channel refuses it for its size,
        Unavailable or RateLimited if it may be requested again.
        """
        path = PATH.format(gateway=gateway)
        async with stream_download(self._client, path, {"ref": ref}) as pieces:
            yield pieces
