"""Harness of the WhatsApp channel: a business number at the fake Cloud API, with a webhook over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.errors import ChoirError
from choir_common.http.listen import bind_tcp, serve
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_common.wire.messages import GatewayBinding, WhatsAppBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.whatsapp.factory import WhatsAppChannelFactory
from choir_testing.whatsapp import FakeWhatsApp, run_fake_whatsapp
from choir_testing.whatsapp.accounts import FakeMessage
from choir_testing.whatsapp.faults import DisconnectAfter, DisconnectBefore, ErrorResponse, Fault
from tests.contract.channels.harness import (
    STRANGER,
    USER,
    ChannelHarness,
    Failure,
    ShownMessage,
    until,
)

TOKEN, APP_SECRET, VERIFY = "token-of-the-contract", "app-secret-of-the-contract", "verify-me"
STATUS_TIMEOUT_S = 0.5
FAULTS: dict[Failure, Fault] = {
    "busy": ErrorResponse(503, 131016),
    "limit": ErrorResponse(429, 130429),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}


class WhatsAppHarness(ChannelHarness):
    """A business number with one known user, who has written recently."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))
    can_edit: ClassVar[bool] = False

    def __init__(
        self, whatsapp: FakeWhatsApp, home: Path, emoji: AcknowledgementEmoji | None = None
    ) -> None:
        self.number = whatsapp.number(token=TOKEN, app_secret=APP_SECRET)
        binding = WhatsAppBinding(
            phone_number_id=self.number.phone_number_id, app_secret="a", verify_secret="v"
        )
        super().__init__(
            GatewayBinding(
                name="g",
                type="whatsapp",
                secret="t",
                api_url=whatsapp.api_url,
                acknowledgement=emoji,
                whatsapp=binding,
            )
        )
        self.whatsapp = whatsapp
        self.user = whatsapp.user(USER, self.number)
        self._stranger = whatsapp.user(STRANGER, self.number)
        self._sent = list[FakeMessage]()
        factory = WhatsAppChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home),
            status_timeout_s=STATUS_TIMEOUT_S,
        )
        self.channel = factory.make(
            self.gateway, ChannelSecrets(TOKEN, APP_SECRET, verification=VERIFY)
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["WhatsAppHarness"]:
        """Run the channel until the block ends; the user's first message opens the window."""
        async with run_fake_whatsapp() as whatsapp:
            harness = cls(whatsapp, home)
            async with harness.running():
                await harness.user.send("hi")
                await harness.until_accepted(1)
                harness.control.accepted.clear()
                yield harness

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the channel and its webhook until the block ends."""

        async def take(request: Request) -> Response:
            try:
                await self.channel.take_update(await request.body(), request.headers)
            except ChoirError as error:
                return Response(error.message, error.status)
            return Response()

        app = Starlette(routes=[Route("/whatsapp/g", take, methods=["POST"])])
        listener, stop = bind_tcp("127.0.0.1", 0, "test"), asyncio.Event()
        self.number.webhook_url = f"http://127.0.0.1:{listener.getsockname()[1]}/whatsapp/g"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(app, [listener], stop))
            running = tasks.create_task(self.channel.run())
            try:
                await until(self._is_connected)
                yield
            finally:
                self.number.webhook_url = ""
                stop.set()
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        target = self.user.chat.messages[reply_to.message_id] if reply_to else None
        self._sent.append(await self.user.send(text, reply_to=target))
        return self._sent[-1].message_id

    async def send_as_stranger(self, text: str) -> None:
        await self._stranger.send(text)

    async def repeat(self) -> None:
        self.user.repeat(self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        await self.user.edit(self.user.chat.messages[message_id], text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        mime = "application/octet-stream"
        self._sent.append(await self.user.send_file("document", name, content, mime, text))

    async def press(self, shown: ShownMessage, label: str) -> None:
        await self.user.press(self.user.chat.messages[shown.message_id], label)

    async def shown(self) -> list[ShownMessage]:
        return [_shown(message) for message in self.user.chat.from_business()]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self.user.leave()
        else:
            self.whatsapp.script("messages", FAULTS[failure], number=self.number)

    async def _is_connected(self) -> bool:
        state = self.channel.state()
        return state is not None and not state.detail


def _shown(message: FakeMessage) -> ShownMessage:
    file = message.file
    return ShownMessage(
        message.message_id,
        message.text,
        tuple(message.choices),
        {file.name: file.content} if file else None,
        message.reply_to,
    )
