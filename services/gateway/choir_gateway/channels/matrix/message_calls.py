"""The API calls of a conversation: send, edit, upload, type, react, mark as read.

Called by `sender`, `activity` and `acknowledgements`. A message mentions nobody, whatever an agent wrote, and
asks clients not to make previews of its addresses: they would fetch them without a click.
"""

import asyncio
import hashlib
from typing import IO

import httpx2

from choir_common.errors import OutcomeUnknown
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment, AttachmentKind
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.api_call import call_matrix, translate_break, wait_or_raise
from choir_gateway.channels.matrix.client import MatrixClient, MatrixError, make_path
from choir_gateway.channels.matrix.parts import MatrixMessagePart
from choir_gateway.channels.matrix.rendering import render

MESSAGE, REACTION = "m.room.message", "m.reaction"
HTML_FORMAT = "org.matrix.custom.html"
PREVIEWS = "com.beeper.linkpreviews"
"""The field of MSC4095; an empty list: no previews."""
MAX_EDIT_FALLBACK = 200
KINDS: dict[AttachmentKind, str] = {
    "document": "m.file",
    "photo": "m.image",
    "voice": "m.audio",
    "audio": "m.audio",
    "video": "m.video",
}


def hash_key(*key: str) -> str:
    """Return a transaction id for a key."""
    return hashlib.blake2s("\0".join(key).encode(), digest_size=16).hexdigest()


class MatrixMessageCalls:
    """Calls of one account that write into its rooms."""

    def __init__(self, client: MatrixClient) -> None:
        self._client = client
        self.bot_id = ""
        self._typing_rooms: set[str] = set()

    async def send(
        self,
        room_id: str,
        part: MatrixMessagePart,
        *,
        transaction_id: str,
        deadline: float,
        relation: JsonObject | None = None,
        address: str | None = None,
    ) -> str:
        """Send a part and return the id of its event; raises as `call_matrix`.

        `address` is that of its uploaded file.
        """
        content = _make_content(part, address)
        if relation is not None:
            content["m.relates_to"] = relation
        return await self._send_event(
            room_id, MESSAGE, content, transaction_id=transaction_id, deadline=deadline
        )

    async def edit(
        self,
        room_id: str,
        event_id: str,
        part: MatrixMessagePart,
        *,
        transaction_id: str,
        deadline: float,
    ) -> None:
        """Replace the text of a message; raises as `call_matrix`, RefusedError if it was deleted."""
        path = make_path("rooms", room_id, "event", event_id)
        event = await call_matrix(self._client, "GET", path, deadline=deadline)
        unsigned = event.get("unsigned")
        if isinstance(unsigned, dict) and "redacted_because" in unsigned:
            raise RefusedError(_("The message was deleted."))
        content = _make_content(part, None)
        # Clients that know edits do not show this.
        body = f"* {content['body']}"[:MAX_EDIT_FALLBACK]
        replacement: JsonObject = {
            "msgtype": content["msgtype"],
            "body": body,
            "m.mentions": {},
            "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
        }
        await self._send_event(
            room_id, MESSAGE, replacement, transaction_id=transaction_id, deadline=deadline
        )

    async def upload(self, file: IO[bytes], attachment: Attachment, *, deadline: float) -> str:
        """Upload a file and return its address; raises as `call_matrix`."""
        size = file.seek(0, 2)
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._client.upload(
                        file, name=attachment.name, mime=attachment.mime, size=size
                    )
            except TimeoutError:
                raise OutcomeUnknown(_("The homeserver did not take the file in time.")) from None
            except MatrixError as error:
                await wait_or_raise(error, deadline)
            except httpx2.HTTPError as error:
                raise translate_break(error) from error

    async def react(self, room_id: str, event_id: str, emoji: str, *, deadline: float) -> None:
        """Put an emoji on a message; raises as `call_matrix`."""
        relation: JsonObject = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
        content: JsonObject = {"m.relates_to": relation}
        key = hash_key("reaction", room_id, event_id, emoji)
        await self._send_event(room_id, REACTION, content, transaction_id=key, deadline=deadline)

    async def mark_read(self, room_id: str, event_id: str, *, deadline: float) -> None:
        """Show the user that a message was read; raises as `call_matrix`."""
        path = make_path("rooms", room_id, "receipt", "m.read", event_id)
        await call_matrix(self._client, "POST", path, {}, deadline=deadline)

    async def show_typing(self, room_id: str, lasts_s: float, *, deadline: float) -> None:
        """Show that the bot is typing, for some seconds; raises as `call_matrix`."""
        body: JsonObject = {"typing": True, "timeout": int(lasts_s * 1000)}
        self._typing_rooms.add(room_id)
        await call_matrix(self._client, "PUT", self._typing_path(room_id), body, deadline=deadline)

    async def hide_typing(self, room_id: str, *, deadline: float) -> None:
        """Show that the bot is no longer typing; raises as `call_matrix`."""
        if room_id in self._typing_rooms:
            self._typing_rooms.discard(room_id)
            path = self._typing_path(room_id)
            await call_matrix(self._client, "PUT", path, {"typing": False}, deadline=deadline)

    def _typing_path(self, room_id: str) -> str:
        return make_path("rooms", room_id, "typing", self.bot_id)

    async def _send_event(
        self,
        room_id: str,
        event_type: str,
        content: JsonObject,
        *,
        transaction_id: str,
        deadline: float,
    ) -> str:
        path = make_path("rooms", room_id, "send", event_type, transaction_id)
        answer = await call_matrix(self._client, "PUT", path, content, deadline=deadline)
        return str(answer["event_id"])


def make_relation(
    thread: str | None, reply_to: str | None, latest: str | None
) -> JsonObject | None:
    """Return the relation of a message in a thread or to another message.

    `latest` is the newest known message of the thread, to which clients without threads show a reply.
    """
    if thread is None:
        return {"m.in_reply_to": {"event_id": reply_to}} if reply_to is not None else None
    target = reply_to or latest or thread
    return {
        "rel_type": "m.thread",
        "event_id": thread,
        "is_falling_back": reply_to is None,
        "m.in_reply_to": {"event_id": target},
    }


def _make_content(part: MatrixMessagePart, address: str | None) -> JsonObject:
    text = render(part.styled)
    content: JsonObject = {
        # By the default push rules a notice does not ring.
        "msgtype": "m.notice" if part.is_notice else "m.text",
        "body": text.body,
        "m.mentions": {},
        PREVIEWS: [],
    }
    if text.body:
        content |= {"format": HTML_FORMAT, "formatted_body": text.html}
    if part.file is None or address is None:
        return content
    file = part.file
    info: JsonObject = {"mimetype": file.mime}
    if file.size is not None:
        info["size"] = file.size
    content |= {
        "msgtype": KINDS[file.kind],
        "body": text.body or file.name,
        "filename": file.name,
        "url": address,
        "info": info,
    }
    if file.kind == "voice":
        content["org.matrix.msc3245.voice"] = {}
    return content
