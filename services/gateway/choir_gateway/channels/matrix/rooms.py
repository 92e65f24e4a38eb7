"""The bot's rooms: who is in them, and the one in which it talks with a user.

With a user it talks only where nobody else is joined or invited: other members would read what the agent
writes. A room that is configured as a group is a group, also with one user in it. All rooms are without
encryption, because the channel has no keys.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.matrix.addresses import parse_group
from choir_gateway.channels.matrix.api_call import call_matrix
from choir_gateway.channels.matrix.client import MatrixClient, make_path
from choir_gateway.channels.matrix.events import MatrixEvent
from choir_gateway.channels.matrix.state_store import MatrixStateStore

log = structlog.get_logger("choir.gateway.matrix")

MEMBER, ENCRYPTION = "m.room.member", "m.room.encryption"
PREVIEWS = "org.matrix.room.preview_urls"
NO_PREVIEWS: JsonObject = {"disable": True}
"""Clients that know this setting make no previews of addresses in the room."""
ACTIVE = ("join", "invite")

NOT_THERE_TEXT = _(
    "{user_id} is no longer in a direct room with the bot. The user must invite it to a room "
    "without encryption."
)
NOT_IN_GROUP_TEXT = _("The bot is not in the room {room_id}; somebody there must invite it.")
ENCRYPTED_GROUP_TEXT = "The room {room_id} is encrypted, and Choir cannot read encrypted rooms."
ALWAYS_ENCRYPTED_TEXT = _(
    "The homeserver encrypts every new room, and Choir cannot read encrypted rooms. Invite "
    "the bot to a room without encryption."
)


@dataclass(slots=True)
class Room:
    """A room that the bot has joined."""

    room_id: str
    members: dict[str, str] = field(default_factory=dict)
    """Memberships by user id."""
    names: dict[str, str] = field(default_factory=dict)
    """The names that members chose for this room, by user id."""
    is_encrypted: bool = False


class RoomDirectory:
    """The rooms that the bot has joined, as /sync describes them."""

    def __init__(self, gateway: str, conversations: ConversationDirectory) -> None:
        self._gateway = gateway
        self._conversations = conversations
        self._rooms: dict[str, Room] = {}
        self.bot_id = ""

    def apply(self, room_id: str, event: MatrixEvent) -> None:
        """Apply a state event."""
        room = self._rooms.setdefault(room_id, Room(room_id))
        if event.membership is not None and event.state_key is not None:
            room.members[event.state_key] = event.membership
            room.names[event.state_key] = event.display_name
        elif event.type == ENCRYPTION and event.state_key == "":
            # Encryption cannot be switched off again.
            room.is_encrypted = True

    def add(self, room: Room) -> None:
        """Add a room that /sync has not described yet."""
        self._rooms.setdefault(room.room_id, room)

    def drop(self, room_id: str) -> None:
        """Remove a room that the bot has left."""
        self._rooms.pop(room_id, None)

    def knows(self, room_id: str) -> bool:
        """Return whether a room was described."""
        return room_id in self._rooms

    def is_group(self, room_id: str) -> bool:
        """Return whether a room is configured as a group."""
        return self._conversations.is_group(self._gateway, room_id)

    def is_user(self, user_id: str) -> bool:
        """Return whether a user has a conversation."""
        return self._conversations.find(self._gateway, user_id) is not None

    def name_of(self, user_id: str, room_id: str) -> str:
        """Return the name of a member; without one, the id up to the homeserver."""
        room = self._rooms.get(room_id)
        name = room.names.get(user_id, "") if room else ""
        return name or user_id.removeprefix("@").partition(":")[0]

    def direct_user(self, room_id: str) -> str | None:
        """Return the only other member of a room; None if there are several or none, and for a group."""
        room = None if self.is_group(room_id) else self._rooms.get(room_id)
        members = room.members.items() if room else ()
        others = [user for user, it in members if it in ACTIVE and user != self.bot_id]
        return others[0] if len(others) == 1 else None

    def is_encrypted(self, room_id: str) -> bool:
        """Return whether a room is encrypted."""
        room = self._rooms.get(room_id)
        return room is not None and room.is_encrypted

    def find_direct(self, user_id: str, preferred: str | None) -> str | None:
        """Return a room in which the bot can talk with a user."""
        rooms = [it for it in self._rooms if self.direct_user(it) == user_id]
        readable = [it for it in rooms if not self.is_encrypted(it)]
        if preferred in readable:
            return preferred
        return readable[-1] if readable else None


class RoomFinder:
    """Finder of the room of each user and group; it creates one for a user who never had one."""

    def __init__(
        self, client: MatrixClient, directory: RoomDirectory, store: MatrixStateStore
    ) -> None:
        self._client = client
        self._directory = directory
        self._store = store
        self._lock = asyncio.Lock()
        self._is_ready = False
        """The rooms are known: after the first batch, and not after a call that may have created one."""
        self._awaited: set[str] = set()
        """Rooms that the bot joins, whose members /sync has not described yet."""

    def note_batch(self) -> None:
        """Record that /sync has described all rooms."""
        self._is_ready = True

    def find(self, address: str) -> str | None:
        """Return the room of a user or a group, or None."""
        group = parse_group(address)
        if group is None:
            return self._directory.find_direct(address, self._store.state.rooms.get(address))
        is_usable = self._directory.knows(group.room_id) and not self._directory.is_encrypted(
            group.room_id
        )
        return group.room_id if is_usable else None

    async def open(self, address: str, deadline: float, *, is_wanted: bool = False) -> str:
        """Return the room of a user or a group; that of a user is created if necessary.

        A user who left is not invited again, unless `is_wanted` or the user is unknown and has asked for a
        conversation. Raises RefusedError, Unavailable.
        """
        async with self._lock:
            room_id = self.find(address)
            if room_id is not None:
                return room_id
            group = parse_group(address)
            if group is not None and self._directory.is_encrypted(group.room_id):
                text = ENCRYPTED_GROUP_TEXT.format(room_id=group.room_id)
                raise RefusedError(text, blocks_user=True)
            self._require_rooms()
            if group is not None:
                return self._refuse_group(group.room_id)
            return await self._open_new(address, deadline, is_wanted=is_wanted)

    def _require_rooms(self) -> None:
        """Raise Unavailable unless all rooms are known."""
        self._awaited = {it for it in self._awaited if not self._directory.knows(it)}
        if not self._is_ready or self._awaited:
            raise Unavailable(_("The bot does not know its rooms yet."), retry_after_s=1.0)

    def _refuse_group(self, room_id: str) -> str:
        if room_id in self._store.state.invites:
            raise Unavailable(_("The bot has not joined the room yet."), retry_after_s=1.0)
        raise RefusedError(NOT_IN_GROUP_TEXT.format(room_id=room_id), blocks_user=True)

    async def _open_new(self, user_id: str, deadline: float, *, is_wanted: bool) -> str:
        is_user = self._directory.is_user(user_id)
        if user_id in self._store.state.rooms and is_user and not is_wanted:
            raise RefusedError(NOT_THERE_TEXT.format(user_id=user_id), blocks_user=True)
        room_id = await self._create(user_id, deadline)
        await self._store.note_room(user_id, room_id, is_strangers=not is_user)
        if self._directory.is_encrypted(room_id):
            raise RefusedError(ALWAYS_ENCRYPTED_TEXT, blocks_user=True)
        return room_id

    async def join(self, room_id: str, deadline: float) -> None:
        """Accept an invitation. Raises as `call_matrix`."""
        self._awaited.add(room_id)
        try:
            await call_matrix(
                self._client, "POST", make_path("join", room_id), {}, deadline=deadline
            )
        except (RefusedError, Unavailable):
            self._awaited.discard(room_id)
            raise
        if self._directory.is_group(room_id):
            # Its settings are for its people to decide.
            return
        path = make_path("rooms", room_id, "state", PREVIEWS, "")
        try:
            await call_matrix(self._client, "PUT", path, NO_PREVIEWS, deadline=deadline)
        except (RefusedError, Unavailable) as error:
            # Only a user with enough power may set it.
            log.info("previews not switched off", room=room_id, error=str(error))

    async def leave(self, room_id: str, deadline: float) -> None:
        """Leave a room for good. Raises as `call_matrix`."""
        for step in ("leave", "forget"):
            path = make_path("rooms", room_id, step)
            await call_matrix(self._client, "POST", path, {}, deadline=deadline)

    async def _create(self, user_id: str, deadline: float) -> str:
        previews: JsonObject = {"type": PREVIEWS, "state_key": "", "content": NO_PREVIEWS}
        body: JsonObject = {
            "invite": [user_id],
            "is_direct": True,
            "preset": "trusted_private_chat",
            "initial_state": [previews],
        }
        try:
            answer = await call_matrix(
                self._client, "POST", make_path("createRoom"), body, deadline=deadline
            )
        except OutcomeUnknown as error:
            # No message was sent. If the room exists, the next batch brings it.
            self._is_ready = False
            raise Unavailable(error.message) from error
        room_id = str(answer["room_id"])
        is_encrypted = await self._read_encryption(room_id, deadline)
        members = {self._directory.bot_id: "join", user_id: "invite"}
        self._directory.add(Room(room_id, members, is_encrypted=is_encrypted))
        return room_id

    async def _read_encryption(self, room_id: str, deadline: float) -> bool:
        path = make_path("rooms", room_id, "state", ENCRYPTION, "")
        try:
            await call_matrix(self._client, "GET", path, deadline=deadline)
        except RefusedError:
            return False
        return True
