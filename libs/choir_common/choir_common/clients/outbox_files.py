"""Fetch the files of an outbound message from control's door; used by the gateway, which uploads them.

They lie in control's spool from the moment the message is durable until it is delivered.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.http.bytes_stream import streamed

PATH = "/v1/outbox/{outbox_id}/files/{ref}"
"""`GET`; the operator token is needed over TCP."""


class OutboxFiles(Protocol):
    """Files of messages that are on their way."""

    def open(
        self, outbox_id: int, ref: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpOutboxFiles:
    """Control's door over HTTP."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        """`client` is made for control's endpoint and shows the operator token."""
        self._client = client

    @contextlib.asynccontextmanager
    async def open(self, outbox_id: int, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the bytes of an attachment, as many as its `size` says.

        Raises NotFound when the message has been delivered or has no such file, Unavailable when control
        may be asked again.
        """
        async with streamed(self._client, PATH.format(outbox_id=outbox_id, ref=ref)) as pieces:
            yield pieces
