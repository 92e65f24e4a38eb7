"""What a restarted gateway continues from, in one file per gateway.

It holds how far /sync was read, each user's room, and the open questions. Without the file the channel
starts at the present end of the rooms.
"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import Field, ValidationError

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Button
from choir_common.wire.model import AwareTime, WireModel

log = structlog.get_logger("choir.gateway.matrix")

MAX_MESSAGES = 200
MAX_INVITES = 100
MAX_WARNED = 1_000


class Question(WireModel):
    """A message with choices that a user may take by its numbers or by a reaction."""

    key: str
    """The outbox message that asks."""
    user_id: str
    room_id: str
    event_id: str | None = None
    """None until the homeserver has it."""
    first: int
    """The number of the first choice."""
    buttons: tuple[Button, ...]
    is_latest: bool = True
    """No message of an agent came after it."""


class MessageCoordinates(WireModel):
    """Where a user's message is."""

    event_id: str
    thread: str | None = None
    """The root of its thread."""
    sender: str = ""
    """Who wrote it."""


class MatrixState(WireModel):
    """The content of the file."""

    user_id: str = ""
    """The bot's own id."""
    device_id: str = ""
    device_since: AwareTime = datetime(1970, 1, 1, tzinfo=UTC)
    """When this device was seen first: a homeserver recognises repetitions of one device only."""
    since: str | None = None
    """The next batch of /sync."""
    handled: tuple[str, ...] = ()
    """Events of that batch that control has stored already."""
    rooms: dict[str, str] = Field(default_factory=dict)
    """Each user's room."""
    strangers: dict[str, AwareTime] = Field(default_factory=dict)
    """Unknown users for whom the bot created a room, and when."""
    invites: dict[str, str] = Field(default_factory=dict)
    """Rooms with an open invitation, and who invites."""
    warned: tuple[str, ...] = ()
    """Encrypted rooms where the user was told that nothing can be read."""
    questions: tuple[Question, ...] = ()
    next_number: int = 1
    messages: dict[str, MessageCoordinates] = Field(default_factory=dict)
    """The newest messages, by control's id of them."""


class MatrixStateStore:
    """The state of one gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self.state = _load(path)

    async def begin(self, user_id: str, device_id: str) -> None:
        """Record the account of the token; the state of another account is dropped."""
        before = self.state if self.state.user_id == user_id else MatrixState(user_id=user_id)
        if before.device_id != device_id:
            update = {"device_id": device_id, "device_since": datetime.now(UTC)}
            before = before.model_copy(update=update)
        await self._replace(before)

    async def move(self, since: str | None) -> None:
        """Record that everything before this batch is stored by control."""
        await self._update(since=since, handled=())

    async def note_handled(self, event_id: str) -> None:
        """Record that control has stored an event."""
        await self._update(handled=(*self.state.handled, event_id))

    async def note_message(self, inbox_id: str, place: MessageCoordinates) -> None:
        """Record where a user's message is."""
        if self.state.messages.get(inbox_id) != place:
            messages = {**self.state.messages, inbox_id: place}
            newest = dict(list(messages.items())[-MAX_MESSAGES:])
            await self._update(messages=newest)

    async def note_room(self, user_id: str, room_id: str, *, is_strangers: bool = False) -> None:
        """Record a user's room."""
        if self.state.rooms.get(user_id) != room_id:
            await self._update(rooms={**self.state.rooms, user_id: room_id})
        if is_strangers:
            await self._update(strangers={**self.state.strangers, user_id: datetime.now(UTC)})

    async def drop_stranger(self, user_id: str, *, has_room: bool) -> None:
        """Remove an unknown user, and the record of the room unless the user still has it."""
        strangers = {user: at for user, at in self.state.strangers.items() if user != user_id}
        rooms = self.state.rooms
        if not has_room:
            rooms = {user: room for user, room in rooms.items() if user != user_id}
        await self._update(strangers=strangers, rooms=rooms)

    async def replace_invites(self, invites: dict[str, str]) -> None:
        """Replace the open invitations; too many of them replace the oldest."""
        if invites != self.state.invites:
            await self._update(invites=dict(list(invites.items())[-MAX_INVITES:]))

    async def note_warning(self, room_id: str) -> None:
        """Record that the user of an encrypted room was told."""
        await self._update(warned=(*self.state.warned, room_id)[-MAX_WARNED:])

    async def replace_questions(self, questions: tuple[Question, ...], next_number: int) -> None:
        """Replace the questions and the number of the next choice."""
        if (questions, next_number) != (self.state.questions, self.state.next_number):
            await self._update(questions=questions, next_number=next_number)

    async def erase_user(self, user_id: str) -> int:
        """Erase a user's open questions and invitations; return their number. Raises Unavailable.

        The user's room stays, in which the conversation may go on.
        """
        questions = tuple(it for it in self.state.questions if it.user_id != user_id)
        invites = {room: by for room, by in self.state.invites.items() if by != user_id}
        count = len(self.state.questions) - len(questions) + len(self.state.invites) - len(invites)
        self.state = self.state.model_copy(update={"questions": questions, "invites": invites})
        async with self._lock:
            try:
                await asyncio.to_thread(self._write, self.state.model_dump_json())
            except OSError as error:
                reason = error.strerror
                raise Unavailable(
                    _("Matrix's state could not be written: {reason}.").format(reason=reason)
                ) from error
        return count

    def find_place(self, event_id: str) -> MessageCoordinates | None:
        """Return the place of a user's message; None if it is not one of the newest."""
        places = self.state.messages.values()
        return next((it for it in places if it.event_id == event_id), None)

    async def _update(self, **changes: object) -> None:
        await self._replace(self.state.model_copy(update=changes))

    async def _replace(self, state: MatrixState) -> None:
        if state == self.state:
            return
        self.state = state
        async with self._lock:
            content = self.state.model_dump_json()
            try:
                await asyncio.to_thread(self._write, content)
            except OSError as error:
                # Control recognises most repetitions, so go on without the file.
                log.error("state not stored", path=str(self._path), error=str(error))

    def _write(self, content: str) -> None:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.touch(0o600)
        part.write_text(content)
        part.replace(self._path)


def _load(path: Path) -> MatrixState:
    try:
        return MatrixState.model_validate_json(path.read_text())
    except FileNotFoundError:
        return MatrixState()
    except (OSError, ValidationError, ValueError) as error:
        log.error("state lost; messages of the downtime are not read", error=type(error).__name__)
        return MatrixState()
