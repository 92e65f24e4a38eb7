"""Harness of the webhook channel: a program that signs its requests."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_gateway.channels.webhook.factory import WebhookChannelFactory
from choir_testing.fake_webhook_program import (
    FakeWebhookProgram,
    WebhookFault,
    run_fake_webhook_program,
)
from tests.contract.channels.harness import STRANGER, USER, ChannelHarness, Failure, ShownMessage

SECRET = "key-of-the-contract"
LIMITS = SpoolLimits(1_000_000, 10_000_000, timedelta(days=1))
FAULTS: dict[Failure, WebhookFault] = {
    "busy": "busy",
    "limit": "limit",
    "blocked": "gone",
    "cut before": "cut before",
    "cut after": "cut after",
}


class WebhookHarness(ChannelHarness):
    """A program with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset(FAULTS)

    def __init__(self, program: FakeWebhookProgram, home: Path) -> None:
        super().__init__(GatewayBinding(name="g", type="webhook", secret="w", api_url=program.url))
        self._program = program
        self._last = (b"", dict[str, str]())
        self._count_sent = 0
        factory = WebhookChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home),
            FileSpool(home, LIMITS),
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(SECRET))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["WebhookHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_webhook_program(SECRET) as program:
            harness = cls(program, home)
            running = asyncio.create_task(harness.channel.run())
            await asyncio.sleep(0)
            try:
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        quoted = {"message_id": reply_to.message_id} if reply_to else None
        return await self._post({"text": text, "reply_to": quoted})

    async def send_as_stranger(self, text: str) -> None:
        await self._post({"text": text, "user": STRANGER})

    async def repeat(self) -> None:
        body, headers = self._last
        await self.channel.take_update(body, headers)

    async def edit(self, message_id: str, text: str) -> None:
        await self._post({"text": text, "edits": message_id})

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        file = {"name": name, "content": base64.b64encode(content).decode()}
        await self._post({"text": text, "files": [file]})

    async def press(self, shown: ShownMessage, label: str) -> None:
        buttons = self._program.shown[shown.message_id]["buttons"]
        (data,) = [button["data"] for button in buttons if button["label"] == label]
        press = {"type": "press", "user": USER, "data": data, "message_id": shown.message_id}
        await self._take(press)

    async def shown(self) -> list[ShownMessage]:
        return [_shown(message) for message in self._program.shown.values()]

    def fail(self, failure: Failure) -> None:
        self._program.faults.append(FAULTS[failure])

    async def _post(self, fields: dict[str, Any]) -> str:
        self._count_sent += 1
        message_id = f"m{self._count_sent}"
        await self._take({"type": "message", "user": USER, "message_id": message_id, **fields})
        return message_id

    async def _take(self, update: dict[str, Any]) -> None:
        body = json.dumps(update).encode()
        self._last = (body, self._program.sign(body))
        await self.channel.take_update(*self._last)


def _shown(message: dict[str, Any]) -> ShownMessage:
    return ShownMessage(
        message["id"],
        message["text"],
        tuple(button["label"] for button in message["buttons"]),
        {it["name"]: base64.b64decode(it["content"]) for it in message["files"]} or None,
        message["reply_to"],
    )
