"""Client for the files of outbound messages, which control serves.

Over HTTPS, control is verified by the certificates that it sent with the bots' tokens, and by no
others.
"""

import contextlib
from collections.abc import AsyncIterator

from choir_common.clients.control import HttpOutboxFilesClient
from choir_common.http.client import make_client


class ControlFileClient:
    """Client that downloads the files of the outbox from control."""

    def __init__(self, endpoint: str, gateway_token: str | None) -> None:
        self._endpoint = endpoint
        # Control requires the token over TCP only.
        self._headers = {"Authorization": f"Bearer {gateway_token}"} if gateway_token else {}
        self._ca_pem: str | None = None

    def trust(self, ca_pem: str) -> None:
        """Verify control by these certificates (PEM) from now on; empty: by the system's."""
        self._ca_pem = ca_pem or None

    @contextlib.asynccontextmanager
    async def open(self, outbox_id: int, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of an attachment; raises the errors of `clients.outbox_files`."""
        # One client per file: files are rare, and the trusted certificates may change in between.
        async with (
            make_client(self._endpoint, headers=self._headers, ca_pem=self._ca_pem) as client,
            HttpOutboxFilesClient(client).open(outbox_id, ref) as pieces,
        ):
            yield pieces
