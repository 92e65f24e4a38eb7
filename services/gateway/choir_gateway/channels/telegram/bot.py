"""Construction of the library's bot with its connection pools."""

from dataclasses import dataclass

from telegram import Bot
from telegram.request import HTTPXRequest

PUBLIC_API = "https://api.telegram.org"
POLLING_CONNECTIONS = 2


@dataclass(frozen=True, slots=True)
class BotConnection:
    """A bot and its connection pools, which the user of the bot opens and closes."""

    bot: Bot
    api: str
    """The address of the Bot API."""
    requests: tuple[HTTPXRequest, HTTPXRequest]


def make_bot(token: str, api_url: str | None, *, connections: int) -> BotConnection:
    """Return a bot; `connections` is the size of the pool for all calls but long polls."""
    api = (api_url or PUBLIC_API).rstrip("/")
    # Separate connection pools: the long poll must not wait for a connection that a delivery uses.
    sending, polling = _requests(connections), _requests(POLLING_CONNECTIONS)
    bot = Bot(
        token,
        base_url=f"{api}/bot",
        base_file_url=f"{api}/file/bot",
        request=sending,
        get_updates_request=polling,
    )
    return BotConnection(bot, api, (sending, polling))


def _requests(connections: int) -> HTTPXRequest:
    return HTTPXRequest(connection_pool_size=connections, httpx_kwargs={"trust_env": False})
