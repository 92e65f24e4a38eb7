"""HTTP server of the fake Cloud API, run in the test's own event loop.

Tests enter `run_fake_whatsapp()` and configure a number with `api_url`. Updates go to the webhook of the
number, signed and one at a time, until the response is 200.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import assert_never

import httpx2
from aiohttp import BodyPartReader, web
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.whatsapp.accounts import (
    BusinessNumber,
    FakeChat,
    MediaFile,
    new_media_id,
    new_message_id,
)
from choir_testing.whatsapp.faults import (
    ApiError,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    LateFailure,
    NoFault,
    invalid_parameter,
    status_error,
)
from choir_testing.whatsapp.message_rules import check_upload, make_message
from choir_testing.whatsapp.user import FakeWhatsAppUser

DEFAULT_TOKEN, DEFAULT_APP_SECRET = "EAAJ-fake-token", "fake-app-secret"
VERSION = "v25.0"
MAX_REQUEST_BYTES = 110 * 1024 * 1024
RETRY_S = 0.05


class FakeWhatsApp:
    """The fake's interface for tests."""

    def __init__(self, client: httpx2.AsyncClient, tasks: asyncio.TaskGroup) -> None:
        self.port = 0
        self._client = client
        self._tasks = tasks
        self._pushes: list[asyncio.Task[None]] = []
        self._numbers: dict[str, BusinessNumber] = {}
        self.disconnected = False
        """While set, every request is cut before it is run."""

    @property
    def origin(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """Replacement for https://graph.facebook.com/v25.0."""
        return f"{self.origin}/{VERSION}"

    def number(
        self,
        phone_number_id: str = "106540352242922",
        *,
        token: str = DEFAULT_TOKEN,
        app_secret: str = DEFAULT_APP_SECRET,
    ) -> BusinessNumber:
        """Return a business number; created on first use."""
        if phone_number_id not in self._numbers:
            number = BusinessNumber(phone_number_id, token, app_secret)
            self._numbers[phone_number_id] = number
            self._pushes.append(self._tasks.create_task(self._push_updates(number)))
        return self._numbers[phone_number_id]

    def user(self, wa_id: str, number: BusinessNumber) -> FakeWhatsAppUser:
        """Return a user of WhatsApp in the chat with a number."""
        return FakeWhatsAppUser(number, number.chat(wa_id))

    def script(self, call: str, *faults: Fault, number: BusinessNumber) -> None:
        """Let the next calls fail, one fault per call: `messages`, `media` or `download`."""
        number.scripts.setdefault(call, []).extend(faults)

    def stop_pushes(self) -> None:
        """Stop the updates, so that the server can stop."""
        for task in self._pushes:
            task.cancel()

    async def get_node(self, request: web.Request) -> web.StreamResponse:
        """Return a number, or the address of a file."""
        if self.disconnected:
            return _cut(request)
        try:
            number = self._authenticate(request)
            node = request.match_info["node"]
            if node == number.phone_number_id:
                return web.json_response({"id": node})
            file = number.media.get(node)
            if file is None or request.query.get("phone_number_id") != number.phone_number_id:
                raise ApiError(400, 100, "Object does not exist.")
            return web.json_response(
                {
                    "messaging_product": "whatsapp",
                    "url": f"{self.origin}/whatsapp_business/attachments/?mid={node}",
                    "mime_type": file.mime,
                    "sha256": hashlib.sha256(file.content).hexdigest(),
                    "file_size": str(len(file.content)),
                    "id": node,
                }
            )
        except ApiError as error:
            return web.json_response(error.as_json(), status=error.status)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Return the content of a file; the address needs the token, too."""
        if self.disconnected:
            return _cut(request)
        try:
            number = self._authenticate(request)
        except ApiError:
            return web.Response(status=401)
        fault = number.next_fault("download")
        file = number.media.get(request.query.get("mid", ""))
        if file is None or isinstance(fault, ErrorResponse):
            return web.Response(status=404)
        return web.Response(body=file.content, content_type=file.mime)

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Store a file."""
        if self.disconnected:
            return _cut(request)
        try:
            number = self._authenticate(request, request.match_info["number"])
            fields, name, mime, content = await _read_form(request)
            fault = number.next_fault("media")
            if isinstance(fault, ErrorResponse):
                raise ApiError(fault.status, fault.code, fault.details)
            if fields != {"messaging_product": "whatsapp", "type": mime}:
                raise invalid_parameter("type", f"{fields} does not fit to a file of type {mime!r}")
            check_upload(mime, content)
            file = MediaFile(new_media_id(), mime, content, name)
            number.media[file.media_id] = file
            return web.json_response({"id": file.media_id})
        except ApiError as error:
            return web.json_response(error.as_json(), status=error.status)

    async def post_message(self, request: web.Request) -> web.StreamResponse:
        """Handle a message, a reaction, a read mark or a typing indicator."""
        if self.disconnected:
            return _cut(request)
        try:
            number = self._authenticate(request, request.match_info["number"])
            body = await _read_json(request)
            number.calls.append(body)
            if "status" in body:
                return web.json_response(_mark_read(number, body))
            if body.get("type") == "reaction":
                return web.json_response(_react(number, body))
            return self._send(request, number, body)
        except ApiError as error:
            return web.json_response(error.as_json(), status=error.status)

    def _send(
        self, request: web.Request, number: BusinessNumber, body: JsonObject
    ) -> web.StreamResponse:
        fault = number.next_fault("messages")
        match fault:
            case None | NoFault() | LateFailure() | DisconnectAfter():
                pass
            case ErrorResponse(status, code, details):
                raise ApiError(status, code, details)
            case DisconnectBefore():
                return _cut(request)
            case other:
                assert_never(other)
        chat = number.chat(_recipient(body))
        message = make_message(number, chat.wa_id, body)
        data = body.get("biz_opaque_callback_data")
        extra: JsonObject = {} if data is None else {"biz_opaque_callback_data": data}
        failure = _late_failure(chat, fault)
        if failure is None or failure.after_sent:
            number.push_status(chat, message.message_id, "sent", extra)
        if failure is not None:
            errors = {"errors": [status_error(failure.code, failure.details)]}
            number.push_status(chat, message.message_id, "failed", {**extra, **errors})
        else:
            chat.messages[message.message_id] = message
            chat.news.put_nowait(message)
            chat.note_change()
            number.push_status(chat, message.message_id, "delivered", extra)
        return (
            _cut(request)
            if isinstance(fault, DisconnectAfter)
            else web.json_response(_receipt(chat, message.message_id))
        )

    def _authenticate(
        self, request: web.Request, phone_number_id: str | None = None
    ) -> BusinessNumber:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        for number in self._numbers.values():
            if scheme == "Bearer" and hmac.compare_digest(token.encode(), number.token.encode()):
                if phone_number_id not in (None, number.phone_number_id):
                    raise ApiError(
                        400, 33, "The phone number does not exist or you lack permission."
                    )
                return number
        raise ApiError(401, 190, "The access token has expired.")

    async def _push_updates(self, number: BusinessNumber) -> None:
        while True:
            body = json.dumps(await number.updates.get()).encode()
            while True:
                if await self._push(number, body):
                    break
                await asyncio.sleep(RETRY_S)

    async def _push(self, number: BusinessNumber, body: bytes) -> bool:
        if not number.webhook_url:
            return False
        headers = sign(number.app_secret, body)
        try:
            answer = await self._client.post(number.webhook_url, content=body, headers=headers)
        except httpx2.HTTPError:
            return False
        number.responses.append(answer.status_code)
        return answer.is_success


def sign(app_secret: str, body: bytes) -> dict[str, str]:
    """Return the headers of an update."""
    digest = hmac.new(app_secret.encode(), body, hashlib.sha256).hexdigest()
    return {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={digest}"}


def _recipient(body: JsonObject) -> str:
    if body.get("messaging_product") != "whatsapp" or body.get("recipient_type") != "individual":
        raise invalid_parameter("messaging_product", "must be whatsapp, for an individual")
    to, meta_id = body.get("to"), body.get("recipient")
    if isinstance(to, str) and to.isdecimal() and meta_id is None:
        return to
    if to is None and isinstance(meta_id, str) and "." in meta_id:
        return meta_id
    raise invalid_parameter("to", "must be a phone number")


def _late_failure(chat: FakeChat, fault: Fault | None) -> LateFailure | None:
    if isinstance(fault, LateFailure):
        return fault
    if chat.is_unreachable:
        return LateFailure(131026, "Message Undeliverable.")
    if not chat.is_open:
        return LateFailure(
            131047, "More than 24 hours have passed since the customer last replied."
        )
    return None


def _mark_read(number: BusinessNumber, body: JsonObject) -> JsonValue:
    message_id = body.get("message_id")
    if body.get("status") != "read" or body.get("messaging_product") != "whatsapp":
        raise invalid_parameter("status", "must be read")
    if body.keys() - {"messaging_product", "status", "message_id", "typing_indicator"}:
        raise invalid_parameter("status", f"Unexpected key in {sorted(body)}")
    if body.get("typing_indicator", {"type": "text"}) != {"type": "text"}:
        raise invalid_parameter("typing_indicator", "must have the type text")
    for chat in number.chats.values():
        message = chat.messages.get(str(message_id))
        if message is not None and not message.from_business:
            chat.read.add(message.message_id)
            chat.typing += 1 if "typing_indicator" in body else 0
            chat.note_change()
            return {"success": True}
    raise ApiError(400, 131009, "message_id: no such message of a user")


def _react(number: BusinessNumber, body: JsonObject) -> JsonValue:
    chat = number.chat(_recipient(body))
    reaction = body.get("reaction")
    if not isinstance(reaction, dict) or reaction.keys() != {"message_id", "emoji"}:
        raise invalid_parameter("reaction", "needs message_id and emoji")
    if reaction["message_id"] not in chat.messages:
        raise ApiError(400, 131009, "reaction.message_id: no such message")
    chat.reactions[str(reaction["message_id"])] = str(reaction["emoji"])
    chat.note_change()
    return _receipt(chat, new_message_id(chat.wa_id))


def _receipt(chat: FakeChat, message_id: str) -> JsonValue:
    return {
        "messaging_product": "whatsapp",
        "contacts": [{"input": chat.wa_id, "wa_id": chat.wa_id}],
        "messages": [{"id": message_id}],
    }


async def _read_json(request: web.Request) -> JsonObject:
    if request.content_type != "application/json":
        raise invalid_parameter("body", "must be JSON")
    try:
        body = await request.json()
    except ValueError as error:
        raise invalid_parameter("body", "must be JSON") from error
    if not isinstance(body, dict):
        raise invalid_parameter("body", "must be an object")
    return body


async def _read_form(request: web.Request) -> tuple[dict[str, str], str, str, bytes]:
    if request.content_type != "multipart/form-data":
        raise invalid_parameter("body", "must be multipart/form-data")
    fields, name, mime, content = dict[str, str](), "", "", b""
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or part.name is None:
            raise invalid_parameter("body", "has an unknown part")
        if part.name == "file":
            name, mime = part.filename or "", part.headers.get("Content-Type", "")
            content = bytes(await part.read())
        else:
            fields[part.name] = await part.text()
    return fields, name, mime, content


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.asynccontextmanager
async def run_fake_whatsapp() -> AsyncIterator[FakeWhatsApp]:
    """Run a fake Cloud API on a free loopback port until the block ends."""
    async with httpx2.AsyncClient(trust_env=False) as client, asyncio.TaskGroup() as tasks:
        fake = FakeWhatsApp(client, tasks)
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_post(f"/{VERSION}/{{number}}/messages", fake.post_message)
        app.router.add_post(f"/{VERSION}/{{number}}/media", fake.upload)
        app.router.add_get(f"/{VERSION}/{{node}}", fake.get_node)
        app.router.add_get("/whatsapp_business/attachments/", fake.download)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.port = runner.addresses[0][1]
        try:
            yield fake
        finally:
            fake.stop_pushes()
            await runner.cleanup()
