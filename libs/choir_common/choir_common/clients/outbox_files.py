"""Download of outbound attachments from control over HTTP; used by the gateway, which uploads them.

Control keeps a copy from the moment the message is durable until it is delivered.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2

from choir_common.http.bytes_stream import streamed

PATH = "/v1/outbox/{outbox_id}/files/{ref}"
"""Route of `GET`; requires the operator token over TCP."""


class OutboxFiles(Protocol):
    """Attachments of messages that are not delivered yet."""

    def open(
        self, outbox_id: int, ref: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class HttpOutboxFiles:
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
        async with streamed(self._client, PATH.format(outbox_id=outbox_id, ref=ref)) as pieces:
            yield pieces
