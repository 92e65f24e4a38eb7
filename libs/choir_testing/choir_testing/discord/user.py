"""A scripted Discord user, who writes direct messages and receives the bot's.

Made by `FakeDiscord.user`; every action becomes an event of the bot's gateway sessions.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import (
    DmChannel,
    FakeBot,
    FakeFile,
    FakeMessage,
    PendingInteraction,
    new_snowflake,
)
from choir_testing.discord.api_json import channel_json, message_json, user_json

DIRECT_MESSAGES = 1 << 12
VOICE_MESSAGE = 1 << 13


@dataclass(slots=True)
class FakeDiscordUser:
    """One user's direct messages with one bot."""

    bot: FakeBot
    channel: DmChannel
    origin: str

    async def send(self, text: str, *, reply_to: FakeMessage | None = None) -> FakeMessage:
        """Send a message."""
        message = self._message(text)
        message.reply_to = reply_to.message_id if reply_to else None
        return self._post(message)

    async def send_file(
        self,
        name: str,
        content: bytes,
        content_type: str,
        text: str = "",
        *,
        is_voice: bool = False,
    ) -> FakeMessage:
        """Send a file with a text, or a voice message."""
        message = self._message(text)
        message.files = [FakeFile(new_snowflake(), name, content, content_type)]
        message.flags = VOICE_MESSAGE if is_voice else 0
        return self._post(message)

    async def send_sticker(self, name: str) -> FakeMessage:
        """Send a sticker."""
        message = self._message("")
        message.sticker = name
        return self._post(message)

    async def start_call(self) -> FakeMessage:
        """Call the bot; Discord writes a notice of it in the user's name."""
        message = self._message("")
        message.kind = 3
        return self._post(message)

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Edit an own message."""
        message.text, message.edited_at = text, datetime.now(UTC)
        self._dispatch("MESSAGE_UPDATE", message)

    async def show_preview(self, message: FakeMessage) -> None:
        """Let Discord add a preview to a message, which is an update without an edit."""
        self._dispatch("MESSAGE_UPDATE", message)

    def repeat(self, message: FakeMessage) -> None:
        """Send the event of a message again."""
        self._dispatch("MESSAGE_CREATE", message)

    async def press(self, message: FakeMessage, label: str) -> PendingInteraction:
        """Press the button with this label below a message."""
        button = next(it for row in message.buttons for it in row if it.label == label)
        return await self.forge_press(message, button.custom_id)

    async def forge_press(self, message: FakeMessage, custom_id: str) -> PendingInteraction:
        """Send a press with any data, whether or not the button exists."""
        token, pending = secrets.token_hex(20), PendingInteraction(new_snowflake(), self.channel)
        self.bot.interactions[token] = pending
        body: JsonObject = {
            "id": str(pending.interaction_id),
            "application_id": str(self.bot.user_id),
            "type": 3,
            "data": {"component_type": 2, "custom_id": custom_id},
            "channel_id": str(self.channel.channel_id),
            "channel": channel_json(self.channel),
            "user": user_json(self.channel.user_id),
            "token": token,
            "version": 1,
            "message": message_json(self.bot, self.channel, message, self.origin),
            "app_permissions": "0",
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": 1,
            "attachment_size_limit": 10 * 1024 * 1024,
        }
        self.bot.sessions.dispatch("INTERACTION_CREATE", body)
        return pending

    async def receive(self, timeout: float = 60.0) -> FakeMessage:
        """Wait for the bot's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.channel.news.get()

    async def receive_many(self, count: int) -> list[FakeMessage]:
        """Wait for the bot's next `count` messages. Raises TimeoutError."""
        return [await self.receive() for _ in range(count)]

    async def receives_nothing(self, seconds: float = 0.5) -> bool:
        """Return whether the bot sends nothing for this many seconds."""
        try:
            await self.receive(seconds)
        except TimeoutError:
            return True
        return False

    async def wait_until(self, is_so: Callable[[DmChannel], bool], timeout: float = 60.0) -> None:
        """Wait until the channel fulfils a condition. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.channel.wait_until(is_so)

    def block_bot(self) -> None:
        """Refuse the bot's messages: its calls get 403 from now on."""
        self.channel.is_blocked = True

    def delete(self, message: FakeMessage) -> None:
        """Delete a message."""
        del self.channel.messages[message.message_id]

    def _message(self, text: str) -> FakeMessage:
        return FakeMessage(new_snowflake(), self.channel.user_id, text)

    def _post(self, message: FakeMessage) -> FakeMessage:
        self.channel.messages[message.message_id] = message
        self._dispatch("MESSAGE_CREATE", message)
        return message

    def _dispatch(self, name: str, message: FakeMessage) -> None:
        body = message_json(self.bot, self.channel, message, self.origin)
        self.bot.sessions.dispatch(name, body, DIRECT_MESSAGES)
