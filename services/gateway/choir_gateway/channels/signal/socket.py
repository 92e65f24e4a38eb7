"""The WebSocket of signal-cli-rest-api; the only module of the channel that imports aiohttp."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import aiohttp

from choir_common.errors import Unavailable
from choir_common.i18n import _

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
MAX_FRAME_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """Where and how the WebSocket is opened."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    heartbeat_s: float
    """A ping is sent so often; a connection without an answer to it is dead."""


@contextlib.asynccontextmanager
async def open_socket(settings: SocketSettings) -> AsyncIterator[AsyncIterator[str]]:
    """Connect, and yield the texts that arrive until the connection ends.

    Raises Unavailable if it cannot be opened or breaks.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S)
    # As all clients of Choir, it ignores the proxies of the environment.
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        try:
            async with session.ws_connect(
                settings.url,
                headers=settings.headers,
                heartbeat=settings.heartbeat_s,
                max_msg_size=MAX_FRAME_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
            ) as socket:
                yield _texts(socket)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(
                _("The WebSocket of signal-cli-rest-api cannot be used ({kind}).").format(
                    kind=type(error).__name__
                )
            ) from error


async def _texts(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[str]:
    async for message in socket:
        if message.type is aiohttp.WSMsgType.TEXT:
            yield message.data
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise Unavailable(_("The WebSocket of signal-cli-rest-api broke."))
