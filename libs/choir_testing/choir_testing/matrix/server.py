"""HTTP server of the fake homeserver, run in the test's own event loop.

Tests enter `run_fake_matrix()` and configure a gateway with `api_url`. `api` implements the calls.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import assert_never

from aiohttp import web

from choir_common.wire.model import JsonObject
from choir_testing.matrix.accounts import ApiCall, FakeAccount, FakeMedia
from choir_testing.matrix.api import OPERATIONS, SEND_ROUTE, V3, ApiRequest, Operation
from choir_testing.matrix.faults import (
    ApiError,
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    NoFault,
    TooManyRequests,
    bad_json,
    not_found,
)
from choir_testing.matrix.homeserver import Homeserver
from choir_testing.matrix.rooms import SERVER_NAME
from choir_testing.matrix.user import FakeMatrixUser

DEFAULT_TOKEN = "fake_matrix_token"  # noqa: S105  a token only this fake knows
MAX_REQUEST_BYTES = 64 * 1024 * 1024
DOWNLOAD_ROUTE = "/_matrix/client/v1/media/download/{server}/{media_id}"
UPLOAD_ROUTE = "/_matrix/media/v3/upload"

SEND = f"PUT {SEND_ROUTE}"
SYNC = f"GET {V3}/sync"
JOIN = f"POST {V3}/join/{{room_id}}"
CREATE = f"POST {V3}/createRoom"
WHOAMI = f"GET {V3}/account/whoami"
UPLOAD = f"POST {UPLOAD_ROUTE}"
DOWNLOAD = f"GET {DOWNLOAD_ROUTE}"


class FakeMatrix:
    """The fake homeserver's interface for tests."""

    def __init__(self) -> None:
        self.port = 0
        self.homeserver = Homeserver()
        self.disconnected = False
        """While set, every request is cut before it is run."""
        self.redirects_media = False
        """Downloads are redirected to another address, as to a content delivery network."""
        self.refused_tokens = 0
        """How many calls had a wrong token."""
        self._users: dict[tuple[str, str], FakeMatrixUser] = {}
        self.media_tokens: list[str | None] = []
        """The tokens that came to that other address."""

    @property
    def api_url(self) -> str:
        """The address of the homeserver."""
        return f"http://127.0.0.1:{self.port}"

    def bot(self, token: str = DEFAULT_TOKEN, name: str = "bot") -> FakeAccount:
        """Return the account with this token; created on first use."""
        for account in self.homeserver.accounts.values():
            if token in account.devices:
                return account
        user_id = f"@{name}:{SERVER_NAME}"
        account = self.homeserver.accounts.setdefault(user_id, FakeAccount(user_id))
        account.log_in(token)
        return account

    def user(self, name: str, token: str = DEFAULT_TOKEN) -> FakeMatrixUser:
        """Return a user who talks with the bot that has this token."""
        if (name, token) not in self._users:
            user_id = f"@{name}:{SERVER_NAME}"
            self._users[name, token] = FakeMatrixUser(self.homeserver, user_id, self.bot(token))
        return self._users[name, token]

    def script(self, route: str, *faults: Fault, token: str = DEFAULT_TOKEN) -> None:
        """Let the next calls of a route fail, one fault per call."""
        self.bot(token).scripts.setdefault(route, []).extend(faults)

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Handle one call of the API."""
        if self.disconnected:
            return _cut(request)
        try:
            account, device_id = self._authenticate(request)
            route = f"{request.method} {_pattern(request)}"
            body = await _read_body(request)
            account.calls.append(ApiCall(request.method, _pattern(request), body))
            call = ApiRequest(
                homeserver=self.homeserver,
                account=account,
                device_id=device_id,
                ids=dict(request.match_info),
                query=dict(request.query),
                body=body,
            )
            return await self._perform(request, route, call)
        except ApiError as error:
            return _refusal(error)
        except ConnectionResetError:
            # The client was stopped.
            return _cut(request)

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Store a file."""
        if self.disconnected:
            return _cut(request)
        try:
            account, _ = self._authenticate(request)
            account.calls.append(ApiCall("POST", UPLOAD_ROUTE, {}))
            content = await request.read()
            limit = self.homeserver.upload_bytes
            if request.content_length is None:
                raise ApiError(400, "M_UNKNOWN", "Request must specify a Content-Length")
            if limit is not None and len(content) > limit:
                raise ApiError(413, "M_TOO_LARGE", "Upload request body is too large")
            fault = account.next_fault(UPLOAD)
            if isinstance(fault, DisconnectBefore | DisconnectAfter):
                return _cut(request)
            await _apply(fault)
        except ApiError as error:
            return _refusal(error)
        media = FakeMedia(request.query.get("filename", ""), request.content_type, content)
        return _json({"content_uri": self.homeserver.store_media(media)}, 200)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Return the content of a file."""
        if self.disconnected:
            return _cut(request)
        try:
            account, _ = self._authenticate(request)
            await _apply(account.next_fault(DOWNLOAD))
            media = self.homeserver.media.get(request.match_info["media_id"])
            if media is None or request.match_info["server"] != SERVER_NAME:
                raise not_found("Not found")
        except ApiError as error:
            return _refusal(error)
        if self.redirects_media:
            # Another name of this machine: another origin.
            place = f"http://localhost:{self.port}/cdn/{request.match_info['media_id']}"
            return web.Response(status=307, headers={"Location": place})
        return _media_response(media)

    async def download_elsewhere(self, request: web.Request) -> web.StreamResponse:
        """Return the content of a file without a token, as a content delivery network does."""
        self.media_tokens.append(request.headers.get("Authorization"))
        return _media_response(self.homeserver.media[request.match_info["media_id"]])

    def _authenticate(self, request: web.Request) -> tuple[FakeAccount, str]:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not token:
            raise ApiError(401, "M_MISSING_TOKEN", "Missing access token")
        for account in self.homeserver.accounts.values():
            if token in account.devices:
                return account, account.devices[token]
        self.refused_tokens += 1
        raise ApiError(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.")

    async def _perform(
        self, request: web.Request, route: str, call: ApiRequest
    ) -> web.StreamResponse:
        operation = OPERATIONS[request.method, _pattern(request)]
        fault = call.account.next_fault(route)
        if isinstance(fault, DisconnectBefore):
            return _cut(request)
        await _apply(fault)
        answer = await _run_once(operation, request, call)
        return _cut(request) if isinstance(fault, DisconnectAfter) else _json(answer, 200)


async def _apply(fault: Fault | None) -> None:
    match fault:
        case None | NoFault() | DisconnectBefore() | DisconnectAfter():
            return
        case TooManyRequests(pause_ms, has_header):
            error = ApiError(429, "M_LIMIT_EXCEEDED", "Too Many Requests")
            if has_header:
                error.headers["Retry-After"] = str(-(-pause_ms // 1000))
            else:
                error.retry_after_ms = pause_ms
            raise error
        case ErrorResponse(status, code, message):
            raise ApiError(status, code, message)
        case Delay(seconds):
            await asyncio.sleep(seconds)
        case other:
            assert_never(other)


async def _run_once(operation: Operation, request: web.Request, call: ApiRequest) -> JsonObject:
    """Run a call, or return the response to an earlier one with the same transaction."""
    if "transaction_id" not in call.ids:
        return await operation(call)
    key = (call.device_id, f"{request.method} {request.path}")
    transactions = call.account.transactions
    if key not in transactions:
        transactions[key] = await operation(call)
    return transactions[key]


def _pattern(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


async def _read_body(request: web.Request) -> JsonObject:
    if request.method == "GET":
        return {}
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise ApiError(400, "M_NOT_JSON", "Content not JSON.") from error
    if not isinstance(body, dict):
        raise bad_json("Content must be a JSON object.")
    return body


def _refusal(error: ApiError) -> web.Response:
    if not error.code:
        return web.Response(status=error.status, text=f"<html>{error.message}</html>")
    return _json(error.as_json(), error.status, error.headers)


def _json(value: JsonObject, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(value, status=status, headers=headers)


def _media_response(media: FakeMedia) -> web.Response:
    headers = {"Content-Disposition": "attachment"}
    return web.Response(body=media.content, content_type=media.mime, headers=headers)


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _refuse_unknown(request: web.Request) -> web.StreamResponse:
    return _refusal(ApiError(404, "M_UNRECOGNIZED", "Unrecognized request"))


@contextlib.asynccontextmanager
async def run_fake_matrix() -> AsyncIterator[FakeMatrix]:
    """Run a fake homeserver on a free loopback port until the block ends."""
    fake = FakeMatrix()
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    for method, path in OPERATIONS:
        # A state key may be empty.
        pattern = path.replace("{state_key}", "{state_key:[^/]*}")
        app.router.add_route(method, pattern, fake.call, name=None)
    app.router.add_post(UPLOAD_ROUTE, fake.upload)
    app.router.add_get(DOWNLOAD_ROUTE, fake.download)
    app.router.add_get("/cdn/{media_id}", fake.download_elsewhere)
    app.router.add_route("*", "/{path:.*}", _refuse_unknown)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        await runner.cleanup()
