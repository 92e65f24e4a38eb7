"""Fetch the files of outbound messages from control's door. Made by app.py, used by the channels.

Over HTTPS control is known by the certificates it brought with the bots' tokens, and by no others.
"""

import contextlib
from collections.abc import AsyncIterator

from choir_common.clients.outbox_files import HttpOutboxFiles
from choir_common.http.transport import make_client


class ControlFiles:
    """The outbox' files, wherever control listens."""

    def __init__(self, endpoint: str, operator_token: str | None) -> None:
        self._endpoint = endpoint
        # control asks for it over TCP alone
        self._headers = {"Authorization": f"Bearer {operator_token}"} if operator_token else {}
        self._ca_pem: str | None = None

    def trust(self, ca_pem: str) -> None:
        """Know control by these certificates (PEM) from now on; empty: by the system's."""
        self._ca_pem = ca_pem or None

    @contextlib.asynccontextmanager
    async def open(self, outbox_id: int, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the bytes of an attachment; raises as `clients.outbox_files` says."""
        # a client for each: files are few, and what is trusted may change between two
        async with (
            make_client(self._endpoint, headers=self._headers, ca_pem=self._ca_pem) as client,
            HttpOutboxFiles(client).open(outbox_id, ref) as pieces,
        ):
            yield pieces
