"""Fetch what a user sent from the gateway's own door; used by control, which lays it into a workspace.

The bot's token never leaves the gateway: it asks the channel, and passes the bytes on as they come.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.http.bytes_stream import streamed

PATH = "/v1/files/{gateway}"
"""`GET`, with `?ref=`; the operator token is needed."""


class GatewayFiles(Protocol):
    """Files that channels hold."""

    def open(self, gateway: str, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpGatewayFiles:
    """The gateway's door over HTTP."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """`client` is made for the gateway's endpoint and shows the operator token."""
        self._client = client

    @contextlib.asynccontextmanager
    async def open(self, gateway: str, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the bytes of an inbound attachment; whoever reads bounds them.

        Raises NotFound when the channel no longer has it, TooLarge when it does not give it for its size,
        Unavailable or RateLimited when it may be asked again.
        """
        path = PATH.format(gateway=gateway)
        async with streamed(self._client, path, {"ref": ref}) as pieces:
            yield pieces
