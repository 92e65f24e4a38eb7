"""HTTP server of the fake Discord, run in the test's own event loop.

Tests enter `run_fake_discord()` and configure a bot with `api_url`. `rest` implements the calls, `gateway`
the WebSocket.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import assert_never

from aiohttp import BodyPartReader, web
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import DmChannel, FakeBot, RestCall, new_snowflake
from choir_testing.discord.faults import (
    ApiError,
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    NoFault,
    TooManyRequests,
)
from choir_testing.discord.gateway import GatewayConnection
from choir_testing.discord.guild import FakeGuild
from choir_testing.discord.rate_limits import RateLimits
from choir_testing.discord.rest import LIMITED, OPERATIONS, WITHOUT_TOKEN, ApiRequest
from choir_testing.discord.user import FakeDiscordUser

DEFAULT_TOKEN = "fake.discord.token"  # noqa: S105  a token only this fake knows
MAX_REQUEST_BYTES = 60 * 1024 * 1024


class FakeDiscord:
    """The fake Discord's interface for tests."""

    def __init__(self, heartbeat_s: float) -> None:
        self.port = 0
        self._heartbeat_s = heartbeat_s
        self._bots: dict[str, FakeBot] = {}
        self.disconnected = False
        """While set, every request is cut before it is run."""

    @property
    def origin(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """Replacement for https://discord.com/api/v10."""
        return f"{self.origin}/api/v10"

    def bot(self, token: str = DEFAULT_TOKEN) -> FakeBot:
        """Return the bot with this token; created on first use."""
        return self._bots.setdefault(token, FakeBot(token))

    def renew_token(self, old: str, new: str) -> None:
        """Change a bot's token: everything else stays, the old token gets 401."""
        bot = self._bots.pop(old)
        bot.token = new
        self._bots[new] = bot

    def user(self, user_id: int, token: str = DEFAULT_TOKEN) -> FakeDiscordUser:
        """Return a user who shares a server with this bot."""
        bot = self.bot(token)
        channel = bot.channel_of(user_id)
        if channel is None:
            channel = DmChannel(new_snowflake(), user_id)
            bot.channels[channel.channel_id] = channel
        return FakeDiscordUser(bot, channel, self.origin)

    def guild(self, token: str = DEFAULT_TOKEN) -> FakeGuild:
        """Return a new server that this bot has joined."""
        bot, guild_id = self.bot(token), new_snowflake()
        bot.guild_ids.append(guild_id)
        return FakeGuild(bot, guild_id, self.origin)

    def script(self, route: str, *faults: Fault, token: str = DEFAULT_TOKEN) -> None:
        """Let the next calls of a route fail, one fault per call: `POST /channels/{channel_id}/messages`."""
        self.bot(token).scripts.setdefault(route, []).extend(faults)

    def limit_rate(self, token: str = DEFAULT_TOKEN) -> RateLimits:
        """Announce and enforce rate limits from now on; return the counters."""
        limits = self.bot(token).rate_limits = RateLimits()
        return limits

    async def serve_gateway(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket connection."""
        if self.disconnected:
            return _cut(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        connection = GatewayConnection(
            socket,
            request.transport,
            heartbeat_s=self._heartbeat_s,
            origin=self.origin,
        )
        await connection.run(dict(request.query), self._bots)
        return socket

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Handle one call of the REST API."""
        if self.disconnected:
            return _cut(request)
        headers: dict[str, str] = {}
        try:
            bot, path = self._authenticate(request), _pattern(request)
            call = await _read_request(request, bot, self.origin)
            bot.calls.append(RestCall(request.method, path, call.body))
            if bot.rate_limits is not None and (request.method, path) in LIMITED:
                bucket = f"{request.method} {path}:{call.ids.get('channel_id', '')}"
                headers = bot.rate_limits.count(bucket)
            return await _perform(request, path, call, headers)
        except ApiError as error:
            return _refusal(error)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Return the content of a file; the address is its own permission."""
        if self.disconnected:
            return _cut(request)
        file_id = int(request.match_info["file_id"])
        for bot in self._bots.values():
            for channel in bot.channels.values():
                for message in channel.messages.values():
                    for file in message.files:
                        if file.file_id == file_id:
                            return web.Response(body=file.content)
        return web.Response(status=404)

    def _authenticate(self, request: web.Request) -> FakeBot:
        agent = request.headers.get("User-Agent", "")
        if not agent.startswith("DiscordBot ("):
            raise ApiError(403, 0, "A bot must send the User-Agent DiscordBot ($url, $version).")
        path = request.path.removeprefix("/api/v10")
        if path.startswith(WITHOUT_TOKEN):
            token = request.match_info["token"]
            for bot in self._bots.values():
                if token in bot.interactions:
                    return bot
            raise ApiError(404, 10062, "Unknown interaction")
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        found = self._bots.get(token) if kind == "Bot" else None
        if found is None:
            raise ApiError(401, 0, "401: Unauthorized")
        return found


def _pattern(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical.removeprefix("/api/v10") if resource else ""


async def _read_request(request: web.Request, bot: FakeBot, origin: str) -> ApiRequest:
    body: JsonObject = {}
    uploads: dict[int, tuple[str, bytes]] = {}
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                raise ApiError(400, 50109, "The request body contains invalid form data.")
            if part.name == "payload_json":
                body = json.loads(await part.text())
            elif part.name and part.name.startswith("files[") and part.filename:
                content = bytes(await part.read())
                uploads[int(part.name[6:-1])] = (part.filename, content)
    elif request.can_read_body and request.content_length:
        if request.content_type != "application/json":
            raise ApiError(400, 50109, "Expected Content-Type to be application/json.")
        try:
            body = await request.json()
        except ValueError as error:
            raise ApiError(400, 50109, "The request body contains invalid JSON.") from error
    return ApiRequest(
        bot=bot,
        origin=origin,
        ids=dict(request.match_info),
        query=dict(request.query),
        body=body,
        uploads=uploads,
    )


async def _perform(
    request: web.Request, path: str, call: ApiRequest, headers: dict[str, str]
) -> web.StreamResponse:
    operation = OPERATIONS[request.method, path]
    match call.bot.next_fault(f"{request.method} {path}"):
        case None | NoFault():
            pass
        case TooManyRequests(seconds, is_global):
            error = ApiError(429, 0, "You are being rate limited.", retry_after=seconds)
            error.is_global = is_global
            raise error
        case ErrorResponse(status, code, message):
            raise ApiError(status, code, message)
        case DisconnectBefore():
            return _cut(request)
        case DisconnectAfter():
            await operation(call)
            return _cut(request)
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case other:
            assert_never(other)
    result = await operation(call)
    if result is None:
        return web.Response(status=204, headers=headers)
    return _json(result, 200, headers)


def _refusal(error: ApiError) -> web.Response:
    headers = {"Via": "1.1 google"}
    if error.retry_after is not None:
        headers["Retry-After"] = str(int(error.retry_after) + 1)
        headers["X-RateLimit-Scope"] = "global" if error.is_global else "user"
    return _json(error.as_json(), error.status, headers)


def _json(value: JsonValue, status: int, headers: dict[str, str]) -> web.Response:
    # Discord's Content-Type has no charset, which clients compare.
    body = json.dumps(value).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.asynccontextmanager
async def run_fake_discord(heartbeat_s: float = 40.0) -> AsyncIterator[FakeDiscord]:
    """Run a fake Discord on a free loopback port until the block ends."""
    fake = FakeDiscord(heartbeat_s)
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    for method, path in OPERATIONS:
        app.router.add_route(method, f"/api/v10{path}", fake.call)
    app.router.add_get("/attachments/{channel_id}/{file_id}/{name}", fake.download)
    app.router.add_get("/gateway", fake.serve_gateway)
    app.router.add_get("/resume", fake.serve_gateway)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        await runner.cleanup()
