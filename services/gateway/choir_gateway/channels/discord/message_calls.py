"""The API calls of messages: send, edit, type. Called by `sender` and `activity`.

A message never mentions anybody, whatever an agent wrote, and shows no previews of addresses: Discord would
fetch an address to preview it, without a click.
"""

import hashlib
from typing import IO, Any

import discord

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Button
from choir_gateway.channels.discord.api_call import call_discord
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.parts import DiscordMessagePart
from choir_gateway.channels.interface import ConversationDirectory

SUPPRESS_EMBEDS = 1 << 2
SUPPRESS_NOTIFICATIONS = 1 << 12
ACTION_ROW, BUTTON, SECONDARY_STYLE = 1, 2, 2
BUTTONS_PER_ROW = 5
MAX_CHANNELS = 1_000

MESSAGES = "/channels/{channel_id}/messages"
MESSAGE = "/channels/{channel_id}/messages/{message_id}"


def make_card_nonce(gateway: str, key: str) -> str:
    """Return the key by which Discord recognises a card's repeated message: at most 25 characters."""
    return hashlib.blake2s(f"{gateway}\0{key}".encode(), digest_size=12).hexdigest()


class DiscordMessageCalls:
    """Calls of one bot that write into its conversations; `address` is that of a user or a channel."""

    def __init__(
        self, client: DiscordClient, gateway: str, conversations: ConversationDirectory
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._conversations = conversations
        self._channels: dict[str, str] = {}

    async def send(
        self,
        address: str,
        part: DiscordMessagePart,
        *,
        deadline: float,
        nonce: str | None = None,
        reply_to: str | None = None,
        file: IO[bytes] | None = None,
        is_silent: bool = False,
    ) -> str:
        """Send a part and return the id of its message; raises as `call_discord`."""
        channel_id = await self._open_channel(address, deadline)
        flags = SUPPRESS_EMBEDS | (SUPPRESS_NOTIFICATIONS if is_silent else 0)
        body = {**_body(part), "flags": flags}
        if nonce is not None:
            body |= {"nonce": nonce, "enforce_nonce": True}
        if reply_to is not None:
            # A message that was deleted is no reason not to answer it.
            body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
        if part.file is not None:
            body["attachments"] = [{"id": 0, "filename": part.file.name}]
        upload = None
        if file is not None and part.file is not None:
            file.seek(0)
            upload = discord.File(file, filename=part.file.name, spoiler=False)  # type: ignore[arg-type]
        try:
            sent = await call_discord(
                lambda: self._client.call(
                    "POST", MESSAGES, body, file=upload, channel_id=channel_id
                ),
                deadline,
            )
        finally:
            if upload is not None:
                # The library has replaced the file's `close`.
                upload.close()
        return str(sent["id"])

    async def edit(
        self, address: str, message_id: str, part: DiscordMessagePart, *, deadline: float
    ) -> None:
        """Replace the text and the buttons of a message; raises as `call_discord`."""
        channel_id = await self._open_channel(address, deadline)
        body = {**_body(part), "components": _rows(part.buttons), "flags": SUPPRESS_EMBEDS}
        await call_discord(
            lambda: self._client.call(
                "PATCH", MESSAGE, body, channel_id=channel_id, message_id=message_id
            ),
            deadline,
        )

    async def show_typing(self, address: str, *, deadline: float) -> None:
        """Show for ten seconds that the bot is typing; raises as `call_discord`."""
        channel_id = await self._open_channel(address, deadline)
        path = "/channels/{channel_id}/typing"
        await call_discord(lambda: self._client.call("POST", path, channel_id=channel_id), deadline)

    async def _open_channel(self, address: str, deadline: float) -> str:
        """Return the id of a channel or thread, or of the user's direct messages, which never changes."""
        if not self._client.http.token:
            raise Unavailable(_("The bot has not logged in to Discord yet."))
        channel_id, _separator, thread_id = address.partition("/")
        if thread_id or self._conversations.find_group(self._gateway, channel_id) is not None:
            return thread_id or channel_id
        if address not in self._channels:
            channel = await self._create_channel(address, deadline)
            if len(self._channels) >= MAX_CHANNELS:
                self._channels.clear()
            self._channels[address] = str(channel["id"])
        return self._channels[address]

    async def _create_channel(self, user_id: str, deadline: float) -> Any:
        path, body = "/users/@me/channels", {"recipient_id": user_id}
        try:
            return await call_discord(lambda: self._client.call("POST", path, body), deadline)
        except OutcomeUnknown as error:
            # The message itself was not sent.
            raise Unavailable(error.message) from error


def _body(part: DiscordMessagePart) -> dict[str, Any]:
    body: dict[str, Any] = {
        "content": part.text,
        "allowed_mentions": {"parse": [], "replied_user": False},
    }
    if part.buttons:
        body["components"] = _rows(part.buttons)
    return body


def _rows(buttons: tuple[Button, ...]) -> list[dict[str, Any]]:
    row = [
        {"type": BUTTON, "style": SECONDARY_STYLE, "label": it.label, "custom_id": it.data}
        for it in buttons
    ]
    starts = range(0, len(row), BUTTONS_PER_ROW)
    return [{"type": ACTION_ROW, "components": row[at : at + BUTTONS_PER_ROW]} for at in starts]
