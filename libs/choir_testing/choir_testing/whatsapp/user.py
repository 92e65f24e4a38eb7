"""A scripted user of WhatsApp, who writes to a business number and receives its messages.

Made by `FakeWhatsApp.user`; every action becomes an update for the number's webhook.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.whatsapp.accounts import (
    BusinessNumber,
    FakeChat,
    FakeMessage,
    MediaFile,
    new_media_id,
    new_message_id,
)


@dataclass(slots=True)
class FakeWhatsAppUser:
    """One user's chat with one number."""

    number: BusinessNumber
    chat: FakeChat
    meta_id: str = ""
    """With an id, updates contain it instead of the phone number, as for a user with a user name."""

    def open_window(self) -> None:
        """Let the user have written just now, without an update."""
        self.chat.last_user_at = time.time()

    async def send(
        self, text: str, *, reply_to: FakeMessage | None = None, sent_at: float | None = None
    ) -> FakeMessage:
        """Send a text."""
        content: JsonObject = {"type": "text", "text": {"body": text}}
        return self._post(FakeMessage("", False, text), content, reply_to, sent_at)

    async def send_file(
        self,
        kind: str,
        name: str,
        content: bytes,
        mime: str,
        text: str = "",
        *,
        is_voice: bool = False,
    ) -> FakeMessage:
        """Send a file: an image, a video, audio or a document."""
        file = MediaFile(new_media_id(), mime, content, name)
        self.number.media[file.media_id] = file
        media: JsonObject = {"id": file.media_id, "mime_type": mime, "sha256": "4b1a="}
        media |= {"caption": text} if text else {}
        media |= {"filename": name} if kind == "document" else {}
        media |= {"voice": is_voice} if kind == "audio" else {}
        return self._post(FakeMessage("", False, text, file=file), {"type": kind, kind: media})

    async def send_other(self, content: JsonObject) -> FakeMessage:
        """Send a message of any type."""
        return self._post(FakeMessage("", False), content)

    async def edit(self, message: FakeMessage, text: str) -> FakeMessage:
        """Edit an own message: the Cloud API reports that it is not supported, and not the text."""
        message.text = text
        error: JsonObject = {
            "code": 131051,
            "title": "Message type unknown",
            "message": "Message type unknown",
            "error_data": {"details": "Message type is currently not supported."},
        }
        content: JsonObject = {
            "type": "unsupported",
            "unsupported": {"type": "edit"},
            "errors": [error],
        }
        return self._post(FakeMessage("", False), content)

    async def press(self, message: FakeMessage, title: str) -> FakeMessage:
        """Press the button or choose the row with this title."""
        return await self.forge_press(message, message.choices[title], title)

    async def forge_press(self, message: FakeMessage, data: str, title: str = "x") -> FakeMessage:
        """Send a press with any data, whether or not the button exists."""
        kind = "list_reply" if message.is_list else "button_reply"
        content: JsonObject = {
            "type": "interactive",
            "interactive": {"type": kind, kind: {"id": data, "title": title}},
        }
        return self._post(FakeMessage("", False, title), content, message)

    def repeat(self, message: FakeMessage) -> None:
        """Send the update of a message again, as Meta does after a lost response."""
        content: JsonObject = {"type": "text", "text": {"body": message.text}}
        self.number.push(self._value(message, content, None, self.chat.last_user_at))

    def leave(self) -> None:
        """Let every message to this user fail from now on."""
        self.chat.is_unreachable = True

    async def receive(self, timeout: float = 60.0) -> FakeMessage:
        """Wait for the next message of the business. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.chat.news.get()

    async def wait_until(self, is_so: Callable[[FakeChat], bool], timeout: float = 60.0) -> None:
        """Wait until the chat fulfils a condition. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.chat.wait_until(is_so)

    def _post(
        self,
        message: FakeMessage,
        content: JsonObject,
        reply_to: FakeMessage | None = None,
        sent_at: float | None = None,
    ) -> FakeMessage:
        message.message_id = new_message_id(self.chat.wa_id)
        sent_at = time.time() if sent_at is None else sent_at
        self.chat.messages[message.message_id] = message
        self.chat.last_user_at = max(self.chat.last_user_at, sent_at)
        self.number.push(self._value(message, content, reply_to, sent_at))
        return message

    def _value(
        self,
        message: FakeMessage,
        content: JsonObject,
        reply_to: FakeMessage | None,
        sent_at: float,
    ) -> JsonObject:
        sender: JsonObject = {"from": self.chat.wa_id}
        contact: JsonObject = {"profile": {"name": "A user"}, "wa_id": self.chat.wa_id}
        if self.meta_id:
            sender = {"from_user_id": self.meta_id}
            contact = {"profile": {"name": "A user"}, "user_id": self.meta_id}
        body: JsonObject = {
            **sender,
            "id": message.message_id,
            "timestamp": str(int(sent_at)),
            **content,
        }
        if reply_to is not None:
            body["context"] = {"from": "15550783881", "id": reply_to.message_id}
        return {"contacts": [contact], "messages": [body]}
