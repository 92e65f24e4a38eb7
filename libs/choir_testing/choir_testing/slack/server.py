"""HTTP server of the fake Slack, run in the test's own event loop.

Tests enter `run_fake_slack()` and configure an app with `api_url`. `methods` implements the calls, `sockets`
Socket Mode.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import assert_never

from aiohttp import web

from choir_common.wire.model import JsonObject
from choir_testing.slack.accounts import ApiCall, DmChannel, FakeApp, RoomChannel
from choir_testing.slack.faults import (
    ApiError,
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorCode,
    Fault,
    HttpError,
    NoFault,
    TooManyRequests,
    invalid_arguments,
)
from choir_testing.slack.methods import METHODS, Method, MethodCall
from choir_testing.slack.rate_limits import RateLimits
from choir_testing.slack.room import FakeSlackRoom
from choir_testing.slack.user import FakeSlackUser

BOT_TOKEN = "xoxb-fake-token"  # noqa: S105  a token only this fake knows
APP_TOKEN = "xapp-fake-token"  # noqa: S105  as above
MAX_REQUEST_BYTES = 60 * 1024 * 1024


class FakeSlack:
    """The fake Slack's interface for tests, with one app."""

    def __init__(self, bot_token: str, app_token: str) -> None:
        self.port = 0
        self.app = FakeApp(bot_token, app_token)
        self.disconnected = False
        """While set, every request is cut before it is run."""

    @property
    def origin(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """Replacement for https://slack.com/api."""
        return f"{self.origin}/api"

    def user(self, user_id: str) -> FakeSlackUser:
        """Return a user of the workspace."""
        channel = self.app.channel_of(user_id)
        if channel is None:
            channel = DmChannel(user_id)
            self.app.channels[channel.channel_id] = channel
        return FakeSlackUser(self.app, channel, self.origin)

    def room(self, channel_id: str, *, is_private: bool = False) -> FakeSlackRoom:
        """Return a channel of the workspace, with the app as a member."""
        channel = self.app.channels.get(channel_id)
        if not isinstance(channel, RoomChannel):
            channel = RoomChannel("", channel_id, is_private=is_private)
            self.app.channels[channel_id] = channel
        return FakeSlackRoom(self.app, channel, self.origin)

    def script(self, method: str, *faults: Fault) -> None:
        """Let the next calls of a method fail, one fault per call."""
        self.app.scripts.setdefault(method, []).extend(faults)

    def limit_rate(self) -> RateLimits:
        """Enforce rate limits from now on; return the counters."""
        limits = self.app.rate_limits = RateLimits()
        return limits

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Handle one call of the Web API."""
        if self.disconnected:
            return _cut(request)
        name = request.match_info["method"]
        try:
            method = METHODS.get(name)
            if method is None:
                raise ApiError("unknown_method")
            self._authenticate(request, method)
            arguments = await _read_arguments(request, method)
            self.app.calls.append(ApiCall(name, arguments))
            return await self._perform(request, name, MethodCall(self.app, arguments, self.origin))
        except ApiError as error:
            return _refusal(error)

    async def serve_socket(self, request: web.Request) -> web.StreamResponse:
        """Serve one WebSocket, whose ticket opens no other one."""
        sockets, ticket = self.app.sockets, request.query.get("ticket", "")
        if self.disconnected:
            return _cut(request)
        if ticket not in sockets.tickets:
            return web.Response(status=403)
        sockets.tickets.remove(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await sockets.serve(socket, request.transport)
        return socket

    async def take_upload(self, request: web.Request) -> web.StreamResponse:
        """Take the bytes of a file; the address is its own permission."""
        if self.disconnected:
            return _cut(request)
        key = request.match_info["key"]
        file, length = self.app.uploads.get(key), int(key.partition(":")[2])
        content = await request.read()
        if file is None or "Authorization" in request.headers or len(content) != length:
            return web.Response(status=400)
        file.content = content
        return web.Response(text=f"OK - {length}")

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Return the content of a file to the app; others are sent to the login page, as browsers are."""
        if self.disconnected:
            return _cut(request)
        is_app = request.headers.get("Authorization") == f"Bearer {self.app.bot_token}"
        if not is_app or self.app.serves_login_page:
            return web.Response(status=302, headers={"Location": f"{self.origin}/login"})
        file = self.app.find_file(request.match_info["file_id"])
        return web.Response(status=404) if file is None else web.Response(body=file.content)

    def _authenticate(self, request: web.Request, method: Method) -> None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not token:
            raise ApiError("not_authed")
        expected, other = self.app.bot_token, self.app.app_token
        if method.takes_app_token:
            expected, other = other, expected
        if token == other:
            raise ApiError("not_allowed_token_type")
        if token != expected:
            raise ApiError("invalid_auth")
        if self.app.auth_error is not None and not method.takes_app_token:
            raise ApiError(self.app.auth_error)
        if method.scope is not None and method.scope not in self.app.scopes:
            provided = ",".join(sorted(self.app.scopes))
            raise ApiError("missing_scope", needed=method.scope, provided=provided)

    async def _perform(
        self, request: web.Request, name: str, call: MethodCall
    ) -> web.StreamResponse:
        run = METHODS[name].run
        match self.app.next_fault(name):
            case None | NoFault():
                pass
            case TooManyRequests(seconds):
                raise ApiError("ratelimited", retry_after=seconds)
            case ErrorCode(code):
                raise ApiError(code)
            case HttpError(status):
                return web.Response(
                    status=status, text="<html>error</html>", content_type="text/html"
                )
            case DisconnectBefore():
                return _cut(request)
            case DisconnectAfter():
                run(call)
                return _cut(request)
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case other:
                assert_never(other)
        return web.json_response({"ok": True, **run(call)})


async def _read_arguments(request: web.Request, method: Method) -> JsonObject:
    if request.content_type == "application/json":
        if not method.accepts_json:
            raise invalid_arguments("this method does not accept JSON")
        try:
            body = await request.json()
        except ValueError:
            raise ApiError("invalid_json") from None
        arguments: JsonObject = body if isinstance(body, dict) else {}
    elif request.content_type == "application/x-www-form-urlencoded":
        arguments = {name: str(value) for name, value in (await request.post()).items()}
    else:
        raise ApiError("invalid_post_type")
    unknown = arguments.keys() - method.required - method.optional
    missing = method.required - arguments.keys()
    if unknown or missing:
        raise invalid_arguments(f"unknown: {sorted(unknown)}, missing: {sorted(missing)}")
    return arguments


def _refusal(error: ApiError) -> web.Response:
    if error.retry_after is None:
        return web.json_response(error.as_json())
    headers = {"Retry-After": str(error.retry_after)}
    return web.json_response(error.as_json(), status=429, headers=headers)


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.asynccontextmanager
async def run_fake_slack(
    bot_token: str = BOT_TOKEN, app_token: str = APP_TOKEN
) -> AsyncIterator[FakeSlack]:
    """Run a fake Slack on a free loopback port until the block ends."""
    fake = FakeSlack(bot_token, app_token)
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app.router.add_post("/api/{method}", fake.call)
    app.router.add_get("/link/", fake.serve_socket)
    app.router.add_post("/upload/v1/{key}", fake.take_upload)
    app.router.add_get("/files-pri/{file_id}/{name}", fake.download)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        fake.app.sockets.stop()
        await runner.cleanup()
