"""Harness of the console: a client that follows the events of its conversation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from choir_common.http.console_messages import ConsoleMessage
from choir_common.http.response_parser import parse_events
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import (
    ButtonPress,
    GatewayBinding,
    OutboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from tests.contract.channels.harness import (
    ALICE,
    USER,
    ChannelHarness,
    Failure,
    ShownMessage,
)

LIMITS = SpoolLimits(1_000_000, 10_000_000, timedelta(days=1))


class ConsoleHarness(ChannelHarness):
    """A client with one open stream."""

    failures: ClassVar[frozenset[Failure]] = frozenset()

    def __init__(self, home: Path) -> None:
        super().__init__(GatewayBinding(name="g", type="console", secret=None, api_url=None))
        self._console = ConsoleChannel(self.control, FileSpool(home, LIMITS), self.files)
        self.channel = self._console
        self._sent = list[ConsoleMessage]()
        self._shown = dict[str, OutboundMessage]()

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["ConsoleHarness"]:
        """Run the channel with a connected client until the block ends."""
        harness = cls(home)
        following = asyncio.create_task(harness.follow())
        try:
            yield harness
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def follow(self) -> None:
        """Read the stream until cancelled."""
        async for event in parse_events(self._console.follow(ALICE.name, 0)):
            if event.event not in ("message", "edit"):
                continue
            message = OutboundMessage.model_validate_json(event.data)
            edited = message.edits.message_id if message.edits else None
            self._shown[edited or str(message.outbox_id)] = message

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        quoted = QuotedMessage(message_id=reply_to.message_id) if reply_to else None
        key = f"key-{len(self._sent)}"
        await self._accept(ConsoleMessage(key, text, reply_to=quoted))
        return key

    async def send_as_stranger(self, text: str) -> None:
        """Do nothing: routes of conversations that are not configured do not exist."""

    async def repeat(self) -> None:
        await self._console.accept("g", ALICE.name, self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        await self._accept(ConsoleMessage(f"key-{len(self._sent)}", text, edits=message_id))

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield content

        metadata = Attachment(name=name, kind="document", ref="-")
        file = await self._console.spool.store_upload(ALICE.name, metadata, pieces())
        await self._accept(ConsoleMessage(f"key-{len(self._sent)}", text, (file.ref,)))

    async def press(self, shown: ShownMessage, label: str) -> None:
        (button,) = [it for it in self._shown[shown.message_id].buttons if it.label == label]
        await self._console.press(
            ButtonPress(
                gateway="g",
                user_id=USER,
                chat_id=USER,
                data=button.data,
                message_id=shown.message_id,
                callback_id=f"press-{button.data}",
            )
        )

    async def shown(self) -> list[ShownMessage]:
        return [
            ShownMessage(
                key,
                message.text,
                tuple(button.label for button in message.buttons),
                {it.name: await self._read(message, it) for it in message.attachments} or None,
                message.reply_to,
            )
            for key, message in self._shown.items()
        ]

    def fail(self, failure: Failure) -> None:
        raise NotImplementedError("a client reads what it missed from the outbox")

    async def _accept(self, message: ConsoleMessage) -> None:
        self._sent.append(message)
        await self._console.accept("g", ALICE.name, message)

    async def _read(self, message: OutboundMessage, file: Attachment) -> bytes:
        _, pieces = await self._console.open_sent_file(ALICE.name, message.outbox_id, file.ref)
        return b"".join([piece async for piece in pieces])
