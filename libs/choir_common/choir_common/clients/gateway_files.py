"""Download of users' attachments from the gateway over HTTP; used by control.

Control puts the files into a workspace. The bot's token never leaves the gateway, which requests the file
from the channel and streams the bytes.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.http.bytes_stream import streamed

PATH = "/v1/files/{gateway}"
"""Route of `GET`, with `?ref=`; requires the operator token."""


class GatewayFiles(Protocol):
    """Attachments that the channels have."""

    def open(self, gateway: str, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpGatewayFiles:
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
        async with streamed(self._client, path, {"ref": ref}) as pieces:
            yield pieces
