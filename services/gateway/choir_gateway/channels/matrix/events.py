"""The JSON that the homeserver sends, as far as the channel reads it. Unknown fields are ignored.

An event of another shape is dropped: anybody in a room can send any content.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from choir_common.wire.model import JsonObject

MAX_NAME = 255
MAX_TIMESTAMP_MS = 253_402_300_799_000
"""The end of the year 9999."""


class MatrixModel(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class MatrixEvent(MatrixModel):
    """An event of a room."""

    type: str
    sender: str
    event_id: str = ""
    """Empty in the state of an invitation."""
    content: JsonObject = Field(default_factory=dict)
    origin_server_ts: int = 0
    state_key: str | None = None
    redacts: str | None = None
    """Before room version 11, otherwise in the content."""
    unsigned: JsonObject = Field(default_factory=dict)

    @property
    def sent_at(self) -> datetime:
        """The time that the sender's homeserver states."""
        milliseconds = min(max(self.origin_server_ts, 0), MAX_TIMESTAMP_MS)
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    @property
    def membership(self) -> str | None:
        """The membership in an event `m.room.member`."""
        value = self.content.get("membership")
        return value if isinstance(value, str) and self.type == "m.room.member" else None

    @property
    def display_name(self) -> str:
        """The name in an event `m.room.member`; an empty text without one."""
        value = self.content.get("displayname")
        return value[:MAX_NAME] if isinstance(value, str) else ""


def _drop_invalid(items: Any) -> Any:
    """Return the events of a list that have the shape of one."""
    if not isinstance(items, list):
        return ()
    events: list[MatrixEvent] = []
    for item in items:
        try:
            events.append(MatrixEvent.model_validate(item))
        except ValidationError:
            continue
    return tuple(events)


Events = Annotated[tuple[MatrixEvent, ...], BeforeValidator(_drop_invalid)]


class EventList(MatrixModel):
    """A list of state events."""

    events: Events = ()


class Timeline(MatrixModel):
    """The new events of a room, oldest first."""

    events: Events = ()
    limited: bool = False
    """Events before these are missing."""
    prev_batch: str | None = None


class JoinedRoom(MatrixModel):
    """The changes of a room."""

    state: EventList = EventList()
    """The state before the timeline."""
    timeline: Timeline = Timeline()


class InvitedRoom(MatrixModel):
    """An invitation."""

    invite_state: EventList = EventList()


class SyncRooms(MatrixModel):
    """The changes of all rooms."""

    join: dict[str, JoinedRoom] = Field(default_factory=dict)
    invite: dict[str, InvitedRoom] = Field(default_factory=dict)
    leave: dict[str, JsonObject] = Field(default_factory=dict)


class SyncResponse(MatrixModel):
    """The response of /sync."""

    next_batch: str
    rooms: SyncRooms = SyncRooms()


class RoomHistoryPage(MatrixModel):
    """The response of /messages."""

    chunk: Events = ()
    end: str | None = None


class ReplyRelation(MatrixModel):
    """The event to which a message replies."""

    event_id: str


class Relation(MatrixModel):
    """The `m.relates_to` of an event."""

    rel_type: str | None = None
    event_id: str | None = None
    key: str | None = None
    """The emoji of a reaction."""
    is_falling_back: bool = False
    """The reply is only for clients without threads."""
    in_reply_to: ReplyRelation | None = Field(default=None, alias="m.in_reply_to")

    def target(self, rel_type: str) -> str | None:
        """Return the event to which it relates in this way."""
        return self.event_id if self.rel_type == rel_type else None

    @property
    def reply_target(self) -> str | None:
        """The event to which the user replied."""
        if self.in_reply_to is None or self.is_falling_back:
            return None
        return self.in_reply_to.event_id


class MatrixFile(MatrixModel):
    """The `info` of a file, as its sender states it."""

    mimetype: str | None = None
    size: int | None = None


class MessageContent(MatrixModel):
    """The content of a message."""

    msgtype: str = ""
    body: str = ""
    filename: str | None = None
    url: str | None = None
    geo_uri: str | None = None
    info: MatrixFile = MatrixFile()
    relates_to: Relation = Field(default=Relation(), alias="m.relates_to")
    new_content: JsonObject | None = Field(default=None, alias="m.new_content")
    formatted_body: Any = None
    mentions: Any = Field(default=None, alias="m.mentions")
    """Whom the message mentions; absent in messages of older clients."""
    voice: JsonObject | None = Field(default=None, alias="org.matrix.msc3245.voice")
    """Marks a voice message."""


def parse_content(content: JsonObject) -> MessageContent | None:
    """Return the content of a message, or None if it has another shape."""
    try:
        return MessageContent.model_validate(content)
    except ValidationError:
        return None


def parse_relation(event: MatrixEvent) -> Relation:
    """Return the relation of an event; an empty one if it has none."""
    try:
        return Relation.model_validate(event.content.get("m.relates_to") or {})
    except ValidationError:
        return Relation()
