"""The API calls of messages: send, edit, files, reactions. Called by `sender`, `activity` and `receiver`.

No message shows previews of addresses: Slack would fetch an address to preview it, without a click.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO

import structlog
from aiolimiter import AsyncLimiter
from pydantic import JsonValue

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.slack.addresses import parse_group
from choir_gateway.channels.slack.choices import NumberedChoices
from choir_gateway.channels.slack.client import SlackClient
from choir_gateway.channels.slack.errors import SlackRefusedError
from choir_gateway.channels.slack.parts import SlackMessagePart
from choir_gateway.channels.slack.payloads import (
    OpenedChannel,
    PostedMessage,
    SlackObject,
    UploadAddress,
)
from choir_gateway.channels.slack.rendering import escape, to_blocks, to_plain

log = structlog.get_logger("choir.gateway.slack")

MAX_CHANNELS = 1_000
# Slack allows one message a second in a channel, and short bursts.
CHANNEL_BURST, CHANNEL_WINDOW_S = 3, 3.0
REFUSED_BLOCKS = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "block_mismatch"}
)
LOST_THREADS = frozenset({"thread_not_found", "invalid_thread_ts", "cannot_reply_to_message"})
HAS_REACTION, HAS_NO_REACTION = "already_reacted", "no_reaction"


@dataclass(frozen=True, slots=True)
class SlackThread:
    """Where a message goes below another one."""

    ts: str
    """The first message of the thread."""
    is_broadcast: bool = False
    """The message is shown in the conversation, too."""


class SlackMessageCalls:
    """Calls of one app that write into its direct messages and channels, by the address of either."""

    def __init__(self, client: SlackClient, choices: NumberedChoices) -> None:
        self._client = client
        self._choices = choices
        self._channels: dict[str, str] = {}
        self._limiters: OrderedDict[str, AsyncLimiter] = OrderedDict()

    def is_free(self, user_id: str) -> bool:
        """Return whether an unimportant message may be sent now without delaying a reply."""
        return self._limiter(user_id).has_capacity(2)

    async def open_channel(self, user_id: str, deadline: float) -> str:
        """Return the id of a channel, or of the user's direct messages; it never changes."""
        group = parse_group(user_id)
        if group is not None:
            return group.channel
        if user_id not in self._channels:
            try:
                opened = await self._client.call(
                    "conversations.open", {"users": user_id}, OpenedChannel, deadline=deadline
                )
            except OutcomeUnknown as error:
                # The message itself was not sent.
                raise Unavailable(error.message, retry_after_s=error.retry_after_s) from error
            if len(self._channels) >= MAX_CHANNELS:
                self._channels.clear()
            self._channels[user_id] = opened.channel.id
        return self._channels[user_id]

    async def send(
        self,
        user_id: str,
        part: SlackMessagePart,
        *,
        deadline: float,
        thread: SlackThread | None = None,
    ) -> str:
        """Send a text and return the `ts` of its message."""
        group = parse_group(user_id)
        topic = group.thread if group else None
        if topic is not None:
            thread = SlackThread(topic)
        channel = await self.open_channel(user_id, deadline)
        place: JsonObject = {"channel": channel, "unfurl_links": False, "unfurl_media": False}
        in_thread = dict(place)
        if thread is not None:
            in_thread |= {"thread_ts": thread.ts, "reply_broadcast": thread.is_broadcast}
        await self._wait_for_turn(user_id, deadline)
        try:
            ts, is_plain = await self._write("chat.postMessage", in_thread, part, deadline)
        except SlackRefusedError as refusal:
            if thread is None or topic is not None or refusal.code not in LOST_THREADS:
                raise
            # A message that was deleted is no reason not to answer it, unless the thread is the conversation.
            ts, is_plain = await self._write("chat.postMessage", place, part, deadline)
        if is_plain:
            self._choices.offer(user_id, ts, part.buttons)
        return ts

    async def edit(
        self, user_id: str, message_ts: str, part: SlackMessagePart, *, deadline: float
    ) -> None:
        """Replace the text and the buttons of a message."""
        channel = await self.open_channel(user_id, deadline)
        self._choices.withdraw(user_id, message_ts)
        place: JsonObject = {"channel": channel, "ts": message_ts}
        _, is_plain = await self._write("chat.update", place, part, deadline)
        if is_plain:
            self._choices.offer(user_id, message_ts, part.buttons)

    async def send_file(
        self,
        user_id: str,
        name: str,
        content: IO[bytes],
        *,
        deadline: float,
        thread_ts: str | None = None,
    ) -> None:
        """Send a file; only the last of the three calls shows it."""
        channel = await self.open_channel(user_id, deadline)
        content.seek(0, 2)
        size = content.tell()
        content.seek(0)
        try:
            address = await self._client.call(
                "files.getUploadURLExternal",
                {"filename": name, "length": str(size)},
                UploadAddress,
                deadline=deadline,
                is_form=True,
            )
        except OutcomeUnknown as error:
            raise Unavailable(error.message) from error
        await self._client.upload(address.upload_url, content, deadline=deadline)
        await self._wait_for_turn(user_id, deadline)
        body: JsonObject = {
            "files": [{"id": address.file_id, "title": name}],
            "channel_id": channel,
        }
        if thread_ts is not None:
            body["thread_ts"] = thread_ts
        await self._client.call(
            "files.completeUploadExternal", body, SlackObject, deadline=deadline
        )

    async def react(self, user_id: str, message_ts: str, emoji: str, *, deadline: float) -> None:
        """Put a reaction on a message, by the emoji's name."""
        await self._change_reaction(
            "reactions.add", HAS_REACTION, user_id, message_ts, emoji, deadline
        )

    async def unreact(self, user_id: str, message_ts: str, emoji: str, *, deadline: float) -> None:
        """Remove the app's reaction from a message."""
        await self._change_reaction(
            "reactions.remove", HAS_NO_REACTION, user_id, message_ts, emoji, deadline
        )

    async def whisper(
        self, user_id: str, text: str, *, deadline: float, thread_ts: str | None = None
    ) -> None:
        """Show the user a short text that is not stored."""
        channel = await self.open_channel(user_id, deadline)
        body: JsonObject = {"channel": channel, "user": user_id, "text": escape(text)}
        if thread_ts is not None:
            body["thread_ts"] = thread_ts
        await self._client.call("chat.postEphemeral", body, SlackObject, deadline=deadline)

    async def _write(
        self, method: str, place: JsonObject, part: SlackMessagePart, deadline: float
    ) -> tuple[str, bool]:
        """Send or change a text; return its `ts`, and whether Slack has refused its blocks."""
        body: JsonObject = {
            **place,
            "text": to_plain(part.styled),
            "blocks": to_blocks(part.styled, part.buttons),
        }
        try:
            posted = await self._client.call(method, body, PostedMessage, deadline=deadline)
            return posted.ts, False
        except SlackRefusedError as refusal:
            if refusal.code not in REFUSED_BLOCKS:
                raise
            log.warning("formatting refused", error=refusal.code)
        no_blocks: list[JsonValue] = []
        body |= {"text": to_plain(part.styled, part.buttons), "blocks": no_blocks}
        if method == "chat.postMessage":
            body["mrkdwn"] = False
        posted = await self._client.call(method, body, PostedMessage, deadline=deadline)
        return posted.ts, True

    async def _change_reaction(
        self,
        method: str,
        done_code: str,
        user_id: str,
        message_ts: str,
        emoji: str,
        deadline: float,
    ) -> None:
        channel = await self.open_channel(user_id, deadline)
        body: JsonObject = {"channel": channel, "timestamp": message_ts, "name": emoji}
        try:
            await self._client.call(method, body, SlackObject, deadline=deadline)
        except SlackRefusedError as refusal:
            if refusal.code != done_code:
                raise

    async def _wait_for_turn(self, user_id: str, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._limiter(user_id).acquire()
        except TimeoutError:
            raise Unavailable(
                _("The rate limit of this app is exhausted."), retry_after_s=1.0
            ) from None

    def _limiter(self, address: str) -> AsyncLimiter:
        # The threads of a channel share its limit.
        user_id, _, _ = address.partition("/")
        if user_id not in self._limiters:
            self._limiters[user_id] = AsyncLimiter(CHANNEL_BURST, CHANNEL_WINDOW_S)
            if len(self._limiters) > MAX_CHANNELS:
                self._limiters.popitem(last=False)
        self._limiters.move_to_end(user_id)
        return self._limiters[user_id]
