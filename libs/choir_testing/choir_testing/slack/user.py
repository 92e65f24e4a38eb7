"""A scripted Slack user, who writes direct messages and receives the app's.

Made by `FakeSlack.user`; every action becomes an event of Socket Mode.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.slack.accounts import (
    DmChannel,
    FakeApp,
    FakeFile,
    FakeMessage,
    new_id,
    new_ts,
)
from choir_testing.slack.api_json import message_json
from choir_testing.slack.sockets import FakeEnvelope


def dispatch_event(app: FakeApp, event: JsonObject) -> FakeEnvelope:
    """Send an event of the Events API to the app."""
    payload: JsonObject = {
        "token": "unused",
        "team_id": app.team_id,
        "api_app_id": app.app_id,
        "event": {**event, "event_ts": event["ts"]},
        "type": "event_callback",
        "event_id": new_id("Ev"),
        "event_time": int(str(event["ts"]).partition(".")[0]),
        "is_ext_shared_channel": False,
    }
    return app.sockets.dispatch("events_api", payload)


@dataclass(slots=True)
class FakeSlackUser:
    """One user's direct messages with the app."""

    app: FakeApp
    channel: DmChannel
    origin: str

    async def send(
        self, text: str, *, below: FakeMessage | None = None, is_broadcast: bool = False
    ) -> FakeMessage:
        """Send a message, or a reply in the thread of another one."""
        message = FakeMessage(self.channel.user_id, text, is_broadcast=is_broadcast)
        if below is not None:
            message.thread_ts = below.thread_ts or below.ts
        return self._post(message)

    async def send_files(
        self, *files: FakeFile, text: str = "", below: FakeMessage | None = None
    ) -> FakeMessage:
        """Send files with a text."""
        message = FakeMessage(self.channel.user_id, text, files=list(files))
        if below is not None:
            message.thread_ts = below.thread_ts or below.ts
        return self._post(message)

    async def pin(self) -> FakeMessage:
        """Pin something; Slack writes a notice of it in the user's name."""
        return self._post(FakeMessage(self.channel.user_id, "pinned", subtype="pinned_item"))

    async def edit(self, message: FakeMessage, text: str) -> None:
        """Edit an own message."""
        message.text, message.edited_ts = text, new_ts()
        self._dispatch_change(message)

    async def show_preview(self, message: FakeMessage) -> None:
        """Let Slack add a preview to a message, which is a change without an edit."""
        self._dispatch_change(message)

    def repeat(self, message: FakeMessage) -> FakeEnvelope:
        """Send the event of a message again."""
        return self._dispatch(message_json(self.app, self.channel, message, self.origin))

    async def press(self, message: FakeMessage, label: str) -> FakeEnvelope:
        """Press the button with this label below a message."""
        button = next(it for it in message.buttons if it.label == label)
        return await self.forge_press(message, button.value)

    async def forge_press(
        self, message: FakeMessage, value: str, *, channel_id: str | None = None
    ) -> FakeEnvelope:
        """Send a press with any value, whether or not the button exists."""
        place = channel_id or self.channel.channel_id
        container: JsonObject = {
            "type": "message",
            "message_ts": message.ts,
            "channel_id": place,
            "is_ephemeral": False,
        }
        if message.thread_ts is not None:
            container["thread_ts"] = message.thread_ts
        payload: JsonObject = {
            "type": "block_actions",
            "user": {"id": self.channel.user_id, "username": "person", "team_id": self.app.team_id},
            "api_app_id": self.app.app_id,
            "container": container,
            "trigger_id": f"1.2.{uuid.uuid4().hex}",
            "team": {"id": self.app.team_id, "domain": "fake"},
            "channel": {"id": place, "name": "directmessage"},
            "response_url": f"{self.origin}/actions/unused",
            "actions": [
                {
                    "type": "button",
                    "action_id": "choice-0",
                    "block_id": "b1",
                    "text": {"type": "plain_text", "text": "x"},
                    "value": value,
                    "action_ts": new_ts(),
                }
            ],
        }
        return self.app.sockets.dispatch("interactive", payload, accepts_response=True)

    async def receive(self, timeout: float = 60.0) -> FakeMessage:
        """Wait for the app's next message or edit. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await self.channel.news.get()

    async def receive_many(self, count: int) -> list[FakeMessage]:
        """Wait for the app's next `count` messages. Raises TimeoutError."""
        return [await self.receive() for _ in range(count)]

    async def receives_nothing(self, seconds: float = 0.5) -> bool:
        """Return whether the app sends nothing for this many seconds."""
        try:
            await self.receive(seconds)
        except TimeoutError:
            return True
        return False

    async def wait_until(self, is_so: Callable[[DmChannel], bool], timeout: float = 60.0) -> None:
        """Wait until the channel fulfils a condition. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.channel.wait_until(is_so)

    def deactivate(self) -> None:
        """Let an admin deactivate the user's account."""
        self.channel.is_deactivated = True

    def delete(self, message: FakeMessage) -> None:
        """Delete a message."""
        del self.channel.messages[message.ts]

    def forge_message(
        self, text: str, *, channel_id: str, channel_type: str = "im"
    ) -> FakeEnvelope:
        """Send an event of a message in the user's name in any channel."""
        message = FakeMessage(self.channel.user_id, text)
        body = message_json(self.app, self.channel, message, self.origin)
        return self._dispatch(body, channel_id=channel_id, channel_type=channel_type)

    def _post(self, message: FakeMessage) -> FakeMessage:
        self.channel.messages[message.ts] = message
        body = message_json(self.app, self.channel, message, self.origin)
        self._dispatch({**body, "client_msg_id": str(uuid.uuid4())})
        return message

    def _dispatch_change(self, message: FakeMessage) -> None:
        changed = message_json(self.app, self.channel, message, self.origin)
        self._dispatch(
            {
                "type": "message",
                "subtype": "message_changed",
                "message": changed,
                "previous_message": {**changed, "text": "before"},
                "hidden": True,
                "ts": new_ts(),
            }
        )

    def _dispatch(
        self, event: JsonObject, *, channel_id: str | None = None, channel_type: str = "im"
    ) -> FakeEnvelope:
        place: JsonObject = {
            "channel": channel_id or self.channel.channel_id,
            "channel_type": channel_type,
        }
        return dispatch_event(self.app, {**event, **place})
