"""Fake of a program behind a webhook gateway, over real HTTP, in the test's own event loop.

It verifies every signature by its own code, keeps what it was sent, and signs the updates of its users.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from choir_common.http.listen import serve

WebhookFault = Literal["busy", "limit", "gone", "cut before", "cut after"]
_STATUS = {"busy": 503, "limit": 429, "gone": 410}


class _CutConnection(Response):
    """Start a response and close the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})


@dataclass
class FakeWebhookProgram:
    """The program; `shown` is what its users see, by message id."""

    secret: str
    url: str
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    faults: list[WebhookFault] = field(default_factory=list)
    """The next requests fail, one by one."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def sign(self, body: bytes, update_id: str | None = None) -> dict[str, str]:
        """Return the headers of an update of a user."""
        message_id = update_id or f"update-{next(self._numbers)}"
        timestamp = str(int(time.time()))
        return {
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{self._signature(message_id, timestamp, body)}",
        }

    async def answer(self, request: Request) -> Response:
        """Take a message; 401 if its signature is wrong."""
        body = await request.body()
        message_id = request.headers.get("webhook-id", "")
        timestamp = request.headers.get("webhook-timestamp", "")
        expected = f"v1,{self._signature(message_id, timestamp, body)}"
        if request.headers.get("webhook-signature") != expected:
            return Response("wrong signature", 401)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault in _STATUS:
            headers = {"Retry-After": "1"} if fault == "limit" else {}
            return Response("this user has left", _STATUS[fault], headers=headers)
        if fault == "cut before":
            return _CutConnection()
        message = json.loads(body)
        self.requests.append(message)
        if message["edits"] in self.shown:
            self.shown[message["edits"]] = {**message, "id": message["edits"]}
        else:
            self.shown[message["id"]] = message
        return _CutConnection() if fault == "cut after" else Response(status_code=204)

    def _signature(self, message_id: str, timestamp: str, body: bytes) -> str:
        content = f"{message_id}.{timestamp}.".encode() + body
        return base64.b64encode(
            hmac.new(self.secret.encode(), content, hashlib.sha256).digest()
        ).decode()


@contextlib.asynccontextmanager
async def run_fake_webhook_program(secret: str) -> AsyncIterator[FakeWebhookProgram]:
    """Run a program until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = FakeWebhookProgram(secret, f"http://127.0.0.1:{listener.getsockname()[1]}/choir")
        app = Starlette(routes=[Route("/choir", program.answer, methods=["POST"])])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(app, [listener], stop))
            try:
                yield program
            finally:
                stop.set()
