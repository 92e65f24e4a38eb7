"""A channel of the fake Slack with its people, in which the app is a member.

Made by `FakeSlack.room`. As at Slack, a message that mentions the bot is two events: `message`, and
`app_mention` without the type of the channel.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.slack.accounts import (
    BOT_NAME,
    DmChannel,
    FakeApp,
    FakeMessage,
    FakePerson,
    RoomChannel,
    new_id,
    new_ts,
)
from choir_testing.slack.api_json import message_json
from choir_testing.slack.user import dispatch_event


def tell_room(app: FakeApp, channel: RoomChannel, event: JsonObject) -> None:
    """Send an event about a message to the app if it may read the channel; also about its own messages."""
    if channel.is_member and channel.history_scope in app.scopes:
        kind = "group" if channel.is_private else "channel"
        place: JsonObject = {"channel": channel.channel_id, "channel_type": kind}
        dispatch_event(app, {**event, **place})


@dataclass(slots=True)
class FakeSlackRoom:
    """A public or private channel."""

    app: FakeApp
    channel: RoomChannel
    origin: str

    async def send(
        self, author: FakePerson, text: str, *, below: FakeMessage | None = None
    ) -> FakeMessage:
        """Send a message of a person or a bot, perhaps in a thread; `@Choir` mentions the app."""
        self.app.people[author.user_id] = author
        message = FakeMessage(author.user_id, text)
        if below is not None:
            message.thread_ts = below.thread_ts or below.ts
        self.channel.messages[message.ts] = message
        body = message_json(self.app, self.channel, message, self.origin)
        body |= {"bot_id": new_id("B")} if author.is_bot else {"client_msg_id": str(uuid.uuid4())}
        if f"@{BOT_NAME}" in text:
            self._mention(body)
        tell_room(self.app, self.channel, body)
        return message

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Let the author edit a message."""
        message.text, message.edited_ts = text, new_ts()
        changed = message_json(self.app, self.channel, message, self.origin)
        event: JsonObject = {
            "type": "message",
            "subtype": "message_changed",
            "message": changed,
            "previous_message": {**changed, "text": "before"},
            "hidden": True,
            "ts": new_ts(),
        }
        tell_room(self.app, self.channel, event)

    async def receive(self, timeout: float = 60.0) -> FakeMessage:
        """Wait for the app's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.channel.news.get()

    async def wait_until(self, is_so: Callable[[DmChannel], bool], timeout: float = 60.0) -> None:
        """Wait until the channel fulfils a condition. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.channel.wait_until(is_so)

    def _mention(self, body: JsonObject) -> None:
        if self.channel.is_member and "app_mentions:read" in self.app.scopes:
            event = {**body, "type": "app_mention", "channel": self.channel.channel_id}
            dispatch_event(self.app, {name: it for name, it in event.items() if name != "files"})
