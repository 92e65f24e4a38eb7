"""Client of Discord's API for one bot: discord.py with a configurable address, and calls by their JSON.

discord.py keeps Discord's rate limits and repeats calls that met them. It holds the address of the API in a
class attribute, which all bots of a process would share.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import discord
from discord.http import HTTPClient, Route
from discord.state import ConnectionState

PUBLIC_API = "https://discord.com/api/v10"
# Longer rate limits are not waited for; this is the smallest value that the library accepts.
MAX_RATE_LIMIT_S = 30.0


class AddressedHttpClient(HTTPClient):
    """The library's HTTP client for an API at any address."""

    def set_address(self, api_url: str) -> None:
        """Send calls to the API at this address."""
        self._address = api_url

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[discord.File] | None = None,
        form: Any = None,
        **arguments: Any,
    ) -> Any:
        """Call the API once, or again after a rate limit; return the JSON of the response."""
        route.url = self._address + route.url.removeprefix(Route.BASE)
        return await super().request(route, files=files, form=form, **arguments)


class DiscordClient(discord.Client):
    """A bot without a cache of messages and members."""

    def __init__(self, api_url: str, heartbeat_timeout_s: float) -> None:
        self._api_url = api_url
        super().__init__(
            intents=discord.Intents(dm_messages=True),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            heartbeat_timeout=heartbeat_timeout_s,
            max_ratelimit_timeout=MAX_RATE_LIMIT_S,
        )

    def _get_state(self, **options: Any) -> ConnectionState[Self]:
        # The library's hook for another state; here the HTTP client is replaced before it is used.
        http = AddressedHttpClient(self.loop, max_ratelimit_timeout=MAX_RATE_LIMIT_S)
        http.set_address(self._api_url)
        self.http = http
        return super()._get_state(**options)

    def use_intents(self, intents: discord.Intents) -> None:
        """Ask for these events when the next session starts."""
        self._connection._intents = intents

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        file: discord.File | None = None,
        **parameters: str,
    ) -> Any:
        """Call a method of the API; `parameters` fill the path. Raises the errors of the library."""
        route = Route(method, path, **parameters)
        if file is None:
            arguments: dict[str, Any] = {} if body is None else {"json": dict(body)}
            return await self.http.request(route, **arguments)
        form: list[dict[str, Any]] = [
            {"name": "payload_json", "value": discord.utils._to_json(dict(body or {}))},
            {"name": "files[0]", "value": file.fp, "filename": file.filename},
        ]
        return await self.http.request(route, files=[file], form=form)
