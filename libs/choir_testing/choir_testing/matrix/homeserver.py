"""The state of the fake homeserver: rooms, accounts and media. `api` and `user` change it."""

import asyncio
import secrets
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject
from choir_testing.matrix.accounts import FakeAccount, FakeMedia
from choir_testing.matrix.rooms import SERVER_NAME, FakeEvent, FakeRoom

DEFAULT_UPLOAD_BYTES = 1024 * 1024


@dataclass(slots=True)
class Homeserver:
    """Everything that the homeserver knows."""

    accounts: dict[str, FakeAccount] = field(default_factory=dict)
    """Bots by user id."""
    rooms: dict[str, FakeRoom] = field(default_factory=dict)
    media: dict[str, FakeMedia] = field(default_factory=dict)
    position: int = 0
    oldest_position: int = 0
    """Older tokens of /sync are refused."""
    upload_bytes: int | None = DEFAULT_UPLOAD_BYTES
    """The limit that it announces and enforces; None: it announces none."""
    encrypts_all: bool = False
    """Whether it encrypts every new room."""
    refuses_rooms: bool = False
    """Whether nobody may create rooms."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, room: FakeRoom, event: FakeEvent) -> FakeEvent:
        """Append an event to a room."""
        self.position += 1
        room.timeline.append((self.position, event))
        self.note_change()
        return event

    def note_change(self) -> None:
        """Wake everything that waits."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until something changes; return False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def create_room(
        self,
        creator: str,
        *,
        invite: tuple[str, ...] = (),
        initial_state: tuple[JsonObject, ...] = (),
        is_trusted: bool = True,
    ) -> FakeRoom:
        """Create a room as the preset `trusted_private_chat` or `private_chat` does."""
        room = FakeRoom(f"!{secrets.token_urlsafe(12)}:{SERVER_NAME}")
        self.rooms[room.room_id] = room
        powerful = (creator, *(invite if is_trusted else ()))
        levels: JsonObject = {"users": dict.fromkeys(powerful, 100)}
        self.set_state(room, creator, "m.room.create", {"room_version": "11"})
        self.set_member(room, creator, creator, "join")
        self.set_state(room, creator, "m.room.power_levels", levels)
        if self.encrypts_all:
            encryption: JsonObject = {"algorithm": "m.megolm.v1.aes-sha2"}
            self.set_state(room, creator, "m.room.encryption", encryption)
        for item in initial_state:
            content = item["content"]
            assert isinstance(content, dict)
            self.set_state(room, creator, str(item["type"]), content)
        for user in invite:
            self.set_member(room, creator, user, "invite")
        return room

    def set_state(
        self, room: FakeRoom, sender: str, event_type: str, content: JsonObject
    ) -> FakeEvent:
        """Set a state event with an empty key."""
        return self.add(room, FakeEvent(event_type, sender, content, state_key=""))

    def set_member(
        self, room: FakeRoom, sender: str, user_id: str, membership: str, *, name: str | None = None
    ) -> FakeEvent:
        """Change the membership of a user, who shows a name; the event has none after a leave."""
        content: JsonObject = {"membership": membership, "is_direct": membership == "invite"}
        if name is not None:
            content["displayname"] = name
        return self.add(room, FakeEvent("m.room.member", sender, content, state_key=user_id))

    def store_media(self, media: FakeMedia) -> str:
        """Store a file and return its address."""
        media_id = secrets.token_urlsafe(18)
        self.media[media_id] = media
        return f"mxc://{SERVER_NAME}/{media_id}"
