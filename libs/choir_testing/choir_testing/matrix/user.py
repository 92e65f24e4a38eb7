"""A scripted Matrix user, who writes in rooms and reads the bot's messages.

Made by `FakeMatrix.user`; every action becomes an event that the bot's /sync returns.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject
from choir_testing.matrix.accounts import FakeAccount, FakeMedia
from choir_testing.matrix.homeserver import Homeserver
from choir_testing.matrix.rooms import FakeEvent, FakeRoom

POLL_S = 60.0


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """A message of the bot on the user's screen, with edits applied."""

    event_id: str
    msgtype: str
    body: str
    html: str | None
    file: FakeMedia | None
    reply_to: str | None
    """The message to which it replies; not the fallback of a thread."""
    thread: str | None
    has_mentions: bool
    """Whether it may notify by a name in its text."""
    has_previews: bool


@dataclass(slots=True)
class FakeMatrixUser:
    """One user and a bot."""

    homeserver: Homeserver
    user_id: str
    bot: FakeAccount
    _shown: set[str] = field(default_factory=set)

    @property
    def room(self) -> FakeRoom:
        """The newest room of the two, encrypted or not."""
        return self.rooms()[-1]

    def rooms(self) -> list[FakeRoom]:
        """Return the rooms of the two, oldest first."""
        return [
            it
            for it in self.homeserver.rooms.values()
            if ("m.room.member", self.user_id) in it.state
            and ("m.room.member", self.bot.user_id) in it.state
        ]

    def start_room(self, *, is_encrypted: bool = False, others: tuple[str, ...] = ()) -> FakeRoom:
        """Create a room and invite the bot."""
        room = self.homeserver.create_room(self.user_id, invite=(self.bot.user_id, *others))
        if is_encrypted:
            content: JsonObject = {"algorithm": "m.megolm.v1.aes-sha2"}
            self.homeserver.set_state(room, self.user_id, "m.room.encryption", content)
        return room

    async def start_joined_room(self) -> FakeRoom:
        """Create a room, and wait until the bot has joined it and knows its members."""
        room = self.start_room()
        await self.wait_until(lambda: room.membership(self.bot.user_id) == "join")
        await self.until_read()
        return room

    async def until_read(self) -> None:
        """Wait until the bot has handled all events."""
        position = self.homeserver.position
        await self.wait_until(lambda: self.bot.read_position >= position)

    def join(self, room: FakeRoom | None = None) -> None:
        """Accept an invitation of the bot."""
        self._set_membership(room, "join")

    def leave(self, room: FakeRoom | None = None) -> None:
        """Leave a room."""
        self._set_membership(room, "leave")

    def add_member(self, user_id: str) -> None:
        """Let somebody else join the room."""
        self.homeserver.set_member(self.room, user_id, user_id, "join")

    def remove_bot(self) -> None:
        """Remove the bot from the room."""
        self.homeserver.set_member(self.room, self.user_id, self.bot.user_id, "leave")

    def send(
        self,
        text: str,
        *,
        reply_to: str | None = None,
        thread: str | None = None,
        msgtype: str = "m.text",
        mentions: tuple[str, ...] = (),
        room: FakeRoom | None = None,
    ) -> FakeEvent:
        """Send a message; in a thread it falls back to a reply, as clients do."""
        content: JsonObject = {"msgtype": msgtype, "body": text}
        content["m.mentions"] = {"user_ids": [*mentions]} if mentions else {}
        relation: JsonObject = {}
        if thread is not None:
            relation = {
                "rel_type": "m.thread",
                "event_id": thread,
                "is_falling_back": reply_to is None,
                "m.in_reply_to": {"event_id": thread},
            }
        if reply_to is not None:
            relation["m.in_reply_to"] = {"event_id": reply_to}
        if relation:
            content["m.relates_to"] = relation
        return self.send_event("m.room.message", content, room=room)

    def edit(self, event_id: str, text: str, *, room: FakeRoom | None = None) -> FakeEvent:
        """Edit a message; homeservers pass on edits of all authors."""
        new: JsonObject = {"msgtype": "m.text", "body": text}
        content: JsonObject = {
            **new,
            "body": f"* {text}",
            "m.new_content": new,
            "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
        }
        return self.send_event("m.room.message", content, room=room)

    def react(self, event_id: str, emoji: str, *, room: FakeRoom | None = None) -> FakeEvent:
        """React to a message."""
        relation: JsonObject = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
        return self.send_event("m.reaction", {"m.relates_to": relation}, room=room)

    def send_file(
        self,
        name: str,
        content: bytes,
        mime: str,
        *,
        msgtype: str = "m.file",
        caption: str | None = None,
        **fields: JsonObject,
    ) -> FakeEvent:
        """Send a file."""
        address = self.homeserver.store_media(FakeMedia(name, mime, content))
        body: JsonObject = {
            "msgtype": msgtype,
            "body": caption or name,
            "filename": name,
            "url": address,
            "info": {"mimetype": mime, "size": len(content)},
            **fields,
        }
        return self.send_event("m.room.message", body)

    def send_encrypted(self, room: FakeRoom | None = None) -> FakeEvent:
        """Send a message that only devices with the keys can read."""
        content: JsonObject = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgAEnAC"}
        return self.send_event("m.room.encrypted", content, room=room)

    def redact(self, event_id: str) -> None:
        """Delete a message of anybody, which takes some power for those of others."""
        redaction = FakeEvent("m.room.redaction", self.user_id, {"redacts": event_id})
        event = self.room.find(event_id)
        assert event is not None
        event.redacted_by = redaction
        self.homeserver.add(self.room, redaction)

    def repeat(self, event: FakeEvent) -> None:
        """Let the homeserver return an event again."""
        self.homeserver.add(self.room, event)

    def send_event(
        self, event_type: str, content: JsonObject, *, room: FakeRoom | None = None
    ) -> FakeEvent:
        """Send any event."""
        place = room or self.room
        assert place.membership(self.user_id) == "join"
        return self.homeserver.add(place, FakeEvent(event_type, self.user_id, content))

    def shown(self, room: FakeRoom | None = None) -> list[ShownEvent]:
        """Return the bot's messages in a room, oldest first."""
        place = room or self.room
        return [
            self._show(place, it)
            for it in place.events("m.room.message")
            if it.sender == self.bot.user_id and it.relates_to("m.replace") is None
        ]

    async def receive(self, timeout: float = POLL_S) -> ShownEvent:
        """Wait for the bot's next new message. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while True:
                for room in self.rooms():
                    for event in self.shown(room):
                        if event.event_id not in self._shown:
                            self._shown.add(event.event_id)
                            return event
                await self.homeserver.wait_for_change(timeout)

    async def receive_many(self, count: int) -> list[ShownEvent]:
        """Wait for the bot's next `count` messages. Raises TimeoutError."""
        return [await self.receive() for _ in range(count)]

    async def receives_nothing(self, seconds: float = 0.5) -> bool:
        """Return whether the bot sends nothing for this many seconds."""
        try:
            await self.receive(seconds)
        except TimeoutError:
            return True
        return False

    async def wait_until(self, is_so: Callable[[], bool], timeout: float = POLL_S) -> None:
        """Wait until something is so on the homeserver. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not is_so():
                await self.homeserver.wait_for_change(timeout)

    def _set_membership(self, room: FakeRoom | None, membership: str) -> None:
        self.homeserver.set_member(room or self.room, self.user_id, self.user_id, membership)

    def _show(self, room: FakeRoom, event: FakeEvent) -> ShownEvent:
        edit = room.latest_edit(event)
        content = event.content
        if edit is not None and isinstance(edit.content["m.new_content"], dict):
            content = edit.content["m.new_content"]
        relation = event.relation
        reply = relation.get("m.in_reply_to")
        is_reply = isinstance(reply, dict) and not relation.get("is_falling_back")
        html, url = content.get("formatted_body"), content.get("url")
        media_id = str(url).rpartition("/")[2]
        return ShownEvent(
            event_id=event.event_id,
            msgtype=str(content["msgtype"]),
            body=str(content["body"]),
            html=str(html) if html is not None else None,
            file=self.homeserver.media[media_id] if url else None,
            reply_to=str(reply["event_id"]) if is_reply and isinstance(reply, dict) else None,
            thread=event.relates_to("m.thread"),
            # Without the field, older push rules look for names in the text.
            has_mentions=content.get("m.mentions") != {},
            has_previews=content.get("com.beeper.linkpreviews") != [],
        )
