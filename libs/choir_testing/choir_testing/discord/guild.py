"""A server of the fake Discord, which its API calls a guild: channels, threads, and what people write.

Made by `FakeDiscord.guild`. Sessions get the events of their intents; without the intent of message content,
texts, files and buttons are empty unless the message mentions the bot or is its own.
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import (
    FakeBot,
    FakeMessage,
    GuildMember,
    ServerChannel,
    new_snowflake,
)
from choir_testing.discord.api_json import channel_json, member_json, message_json

GUILDS, GUILD_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 15


@dataclass(slots=True)
class FakeGuildChannel:
    """A channel or a thread, as its members use it."""

    bot: FakeBot
    channel: ServerChannel
    origin: str

    @property
    def place_id(self) -> str:
        """Its id, as in config.json."""
        return str(self.channel.channel_id)

    async def open_thread(self) -> "FakeGuildChannel":
        """Open a thread in this channel."""
        thread = ServerChannel(
            new_snowflake(),
            0,
            guild_id=self.channel.guild_id,
            parent_id=self.channel.channel_id,
        )
        self.bot.channels[thread.channel_id] = thread
        body = {**channel_json(thread), "newly_created": True}
        self.bot.sessions.dispatch("THREAD_CREATE", body, GUILDS)
        return FakeGuildChannel(self.bot, thread, self.origin)

    async def send(
        self,
        author: GuildMember,
        text: str,
        *,
        reply_to: FakeMessage | None = None,
        pings: bool = True,
        by_webhook: bool = False,
    ) -> FakeMessage:
        """Send a message; `pings`: a reply mentions the author of the earlier message."""
        message = FakeMessage(new_snowflake(), author.user_id, text, author=author)
        message.mentions = [int(it) for it in re.findall(r"<@!?([0-9]+)>", text)]
        message.webhook_id = new_snowflake() if by_webhook else None
        if reply_to is not None:
            message.reply_to = reply_to.message_id
            message.mentions += [reply_to.author_id] if pings else []
        self.channel.messages[message.message_id] = message
        self._dispatch("MESSAGE_CREATE", message, author)
        return message

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Edit a message of a member."""
        message.text, message.edited_at = text, datetime.now(UTC)
        if message.author is not None:
            self._dispatch("MESSAGE_UPDATE", message, message.author)

    async def receive(self, timeout: float = 60.0) -> FakeMessage:
        """Wait for the bot's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.channel.news.get()

    def _dispatch(self, name: str, message: FakeMessage, author: GuildMember) -> None:
        for session in self.bot.sessions.by_id.values():
            if session.intents & GUILD_MESSAGES:
                body = message_json(
                    self.bot,
                    self.channel,
                    message,
                    self.origin,
                    shows_all=bool(session.intents & MESSAGE_CONTENT),
                )
                extra: JsonObject = {"guild_id": str(self.channel.guild_id)}
                # Messages of webhooks have no member.
                if message.webhook_id is None:
                    extra["member"] = member_json(author)
                session.add(name, body | extra)


@dataclass(slots=True)
class FakeGuild:
    """A server that the bot has joined."""

    bot: FakeBot
    guild_id: int
    origin: str

    def channel(self) -> FakeGuildChannel:
        """Return a new text channel; to be made before the bot connects."""
        channel = ServerChannel(new_snowflake(), 0, guild_id=self.guild_id)
        self.bot.channels[channel.channel_id] = channel
        return FakeGuildChannel(self.bot, channel, self.origin)
