"""A scripted Telegram user, who sends messages and receives the bot's.

Made by `FakeTelegram.user`; every action becomes an update in the bot's mailbox.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.telegram.accounts import Bot, Chat, InlineButton, SentMessage
from choir_testing.telegram.bot_api_json import message_json


@dataclass(slots=True)
class FakeUser:
    """One user's private chat with one bot."""

    bot: Bot
    chat: Chat

    @property
    def user_id(self) -> int:
        """The user's Telegram id, which is also the chat's."""
        return self.chat.user_id

    async def send(self, text: str) -> int:
        """Send a message; return the id of its update."""
        return self._post("message", self._write(SentMessage(0, False, text)))

    async def reply(self, message: SentMessage, text: str) -> int:
        """Send a reply to a message; return the id of its update."""
        reply = SentMessage(0, False, text, reply_to=message.message_id)
        return self._post("message", self._write(reply))

    async def edit(self, message: SentMessage, text: str) -> int:
        """Edit an own message, or the caption of a file; return the id of the update."""
        message.text = text
        message.edits += 1
        return self._post("edited_message", message_json(self.bot, self.chat, message))

    async def send_file(self, kind: str, name: str, content: bytes, caption: str = "") -> int:
        """Send a `document`, `photo`, `voice`, `audio`, `video` or `video_note`."""
        message = SentMessage(0, False, caption, file_kind=kind, file_name=name, file_bytes=content)
        return self._post("message", self._write(message))

    async def send_location(self, latitude: float, longitude: float, **more: float) -> int:
        """Send a location; `more` are other fields of it, such as `horizontal_accuracy`."""
        return await self._share({"location": _location(latitude, longitude, more)})

    async def share_live_location(self, latitude: float, longitude: float, period_s: int) -> int:
        """Begin to share a live location."""
        return await self.send_location(latitude, longitude, live_period=period_s)

    async def move(self, message: SentMessage, latitude: float, longitude: float) -> int:
        """Move a live location that is still shared."""
        return await self._relocate(message, latitude, longitude, is_live=True)

    async def stop_live_location(
        self, message: SentMessage, latitude: float, longitude: float
    ) -> int:
        """Stop sharing a live location; Telegram then leaves `live_period` out."""
        return await self._relocate(message, latitude, longitude, is_live=False)

    async def send_venue(self, title: str, address: str, latitude: float, longitude: float) -> int:
        """Send a venue; as with Telegram, the message has its location twice."""
        location = _location(latitude, longitude, {})
        venue: JsonObject = {"location": location, "title": title, "address": address}
        return await self._share({"venue": venue, "location": location})

    async def send_contact(self, phone_number: str, first_name: str, **more: JsonValue) -> int:
        """Send a contact; `more` are its optional fields `last_name`, `user_id` and `vcard`."""
        return await self._share(
            {"contact": {"phone_number": phone_number, "first_name": first_name, **more}}
        )

    async def press(self, message: SentMessage, button: str) -> int:
        """Press the button with this text below a message; return the id of the update."""
        key = next(b for b in message.buttons if b.text == button)
        return await self.forge_press(message, key)

    async def forge_press(self, message: SentMessage, button: InlineButton) -> int:
        """Send a callback with any data, whether or not the button exists."""
        query = f"query-{len(self.bot.mailbox.history) + 1}"
        self.bot.open_queries.add(query)
        body: JsonObject = {
            "id": query,
            "from": self.chat.user_json(),
            "chat_instance": str(self.user_id),
            "message": message_json(self.bot, self.chat, message),
            "data": button.callback_data,
        }
        return self._post("callback_query", body)

    async def receive(self, timeout: float = 60.0) -> SentMessage:
        """Wait for the bot's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.chat.new_messages.get()

    async def receive_many(self, count: int, timeout: float = 60.0) -> list[SentMessage]:
        """Wait for the bot's next `count` messages. Raises TimeoutError."""
        return [await self.receive(timeout) for _ in range(count)]

    async def receives_nothing(self, seconds: float = 0.5) -> bool:
        """Return whether the bot sends nothing for this many seconds."""
        try:
            await self.receive(seconds)
        except TimeoutError:
            return True
        return False

    async def until_confirmed(self, update_id: int, timeout: float = 60.0) -> None:
        """Wait until the bot has confirmed an update to Telegram. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.bot.mailbox.confirmed(update_id)

    async def wait_until(self, is_so: Callable[[Chat], bool], timeout: float = 60.0) -> None:
        """Wait until the chat fulfils a condition: a text, an edit, typing. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.chat.wait_until(is_so)

    def last_sent(self) -> SentMessage:
        """Return the user's own newest message."""
        return [m for m in self.chat.messages.values() if not m.from_bot][-1]

    def block_bot(self) -> None:
        """Block the bot: its calls get 403 from now on."""
        self.chat.blocked = True

    async def _share(self, shared: JsonObject) -> int:
        return self._post("message", self._write(SentMessage(0, False, "", shared=shared)))

    async def _relocate(
        self, message: SentMessage, latitude: float, longitude: float, *, is_live: bool
    ) -> int:
        before = message.shared["location"]
        assert isinstance(before, dict)
        period = {"live_period": before["live_period"]} if is_live else {}
        message.shared = {"location": _location(latitude, longitude, period)}
        message.edits += 1
        return self._post("edited_message", message_json(self.bot, self.chat, message))

    def _write(self, message: SentMessage) -> JsonObject:
        message.message_id = self.bot.new_message_id()
        self.chat.messages[message.message_id] = message
        return message_json(self.bot, self.chat, message)

    def _post(self, kind: str, body: JsonObject) -> int:
        return self.bot.mailbox.put(kind, body)


def _location(latitude: float, longitude: float, more: Mapping[str, JsonValue]) -> JsonObject:
    return {"latitude": latitude, "longitude": longitude, **more}
