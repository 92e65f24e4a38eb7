"""What a reader finds in an export: plain values without the names of any format."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation; `at` is None if the export has no usable date."""

    role: Role
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation in its order; `conversation_id` is the one of the export, and stays the same."""

    conversation_id: str
    title: str
    started_at: datetime | None
    messages: tuple[Message, ...]
    kind: str = "conversation"


@dataclass(frozen=True, slots=True)
class Memory:
    """A text that the other assistant remembered; `name` is the file or section it comes from."""

    name: str
    text: str
    at: datetime | None
    kind: str = "memory"


@dataclass(frozen=True, slots=True)
class Persona:
    """A text about who the assistant is."""

    name: str
    text: str
    kind: str = "persona"


@dataclass(frozen=True, slots=True)
class ScheduleItem:
    """An instruction at certain times; `value` is what `choirctl schedule add` accepts."""

    schedule_id: str
    text: str
    timing: Literal["at", "every", "cron"]
    value: str
    zone: str | None = None
    kind: str = "schedule"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that was connected, by name. Its tokens are not read."""

    name: str
    kind: str = "channel"


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that is not imported: where it is, and why."""

    place: str
    reason: str
    kind: str = field(default="omission")


Item = Conversation | Memory | Persona | ScheduleItem | Channel | Omission
