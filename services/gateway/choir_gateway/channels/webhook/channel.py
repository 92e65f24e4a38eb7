"""The channel of one webhook gateway: a program sends users' updates here, and gets the agents' messages."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx2
from pydantic import ValidationError

from choir_common.clients.control import ControlClient
from choir_common.errors import InvalidRequest
from choir_common.webhook_signature import WebhookSigner
from choir_common.wire.activity import DmActivity
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import (
    ButtonPress,
    DeliveryReceipt,
    DmBinding,
    InboundMessage,
    OutboundMessage,
)
from choir_common.wire.operator import ComponentStatus
from choir_common.wire.validation_messages import error_message
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.webhook.payloads import (
    USER_UPDATE,
    UpdateAnswer,
    UserMessage,
    UserPress,
    WebhookFile,
)
from choir_gateway.channels.webhook.sender import WebhookSender


class WebhookChannel:
    """Channel of one gateway."""

    def __init__(
        self,
        name: str,
        *,
        client: httpx2.AsyncClient,
        signer: WebhookSigner,
        sender: WebhookSender,
        control: ControlClient,
        conversations: ConversationDirectory,
        spool: FileSpool,
    ) -> None:
        self._name = name
        self._client = client
        self._signer = signer
        self._sender = sender
        self._control = control
        self._conversations = conversations
        self._spool = spool
        # One update at a time: concurrent ones would change the order of a conversation.
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Keep the connections to the program open until cancelled; updates arrive by `take_update`."""
        async with self._client:
            await asyncio.Event().wait()

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message to the program; raises as `WebhookSender.deliver` does."""
        return await self._sender.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Do nothing: activities are not sent to programs."""

    @asynccontextmanager
    async def open_file(self, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises NotFound if it was deleted."""
        yield await self._spool.open_upload(ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> UpdateAnswer:
        """Store an update of a user; it is durable when this returns.

        Raises Unauthorized for a wrong signature, InvalidRequest for another body, NotFound, TooLarge and
        Unavailable if it cannot be stored.
        """
        update_id = self._signer.verify(headers, body, datetime.now(UTC))
        try:
            update = USER_UPDATE.validate_json(body)
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            path = ".".join(map(str, fault["loc"])) or "body"
            raise InvalidRequest(f"{path}: {error_message(fault)}.") from None
        dm = self._conversations.find(self._name, update.user)
        if dm is None:
            return UpdateAnswer(is_stored=False)
        async with self._lock:
            match update:
                case UserMessage():
                    return await self._accept(dm, update_id, update)
                case UserPress():
                    return await self._press(update_id, update)

    def state(self) -> ComponentStatus:
        """Return that it works, with the reason if the last delivery failed."""
        return ComponentStatus(name=self._name, ok=True, detail=self._sender.error)

    async def _accept(self, dm: DmBinding, update_id: str, update: UserMessage) -> UpdateAnswer:
        if not update.text and not update.files:
            raise InvalidRequest("A message needs `text` or `files`.")
        accepted = await self._control.accept(
            InboundMessage(
                gateway=self._name,
                dm=dm.name,
                update_id=update_id,
                text=update.text,
                sent_at=datetime.now(UTC),
                attachments=tuple([await self._store(dm.name, file) for file in update.files]),
                message_id=update.message_id,
                edits=update.edits,
                reply_to=update.reply_to,
            )
        )
        return UpdateAnswer(is_stored=True, note=accepted.note)

    async def _store(self, dm: str, file: WebhookFile) -> Attachment:
        """Store a file until control fetches it; a repeated update leaves a copy, deleted when it is old."""
        metadata = Attachment(name=file.name, kind=file.kind, mime=file.mime, ref="-")
        return await self._spool.store_upload(dm, metadata, _at_once(file.content))

    async def _press(self, update_id: str, update: UserPress) -> UpdateAnswer:
        response = await self._control.press(
            ButtonPress(
                gateway=self._name,
                user_id=update.user,
                chat_id=update.user,
                data=update.data,
                message_id=update.message_id,
                callback_id=update_id[:100],
            )
        )
        return UpdateAnswer(is_stored=True, note=response.answer)


async def _at_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
