"""Marks of how far each user's messages were read, in a file that a restarted gateway continues from.

Slack repeats an event only for some minutes and in no fixed order, so a mark has the newest messages one by
one: what is missing between them is read from the history. Called by `receiver`.
"""

import asyncio
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from choir_gateway.channels.slack.payloads import MessageObject, ts_order

log = structlog.get_logger("choir.gateway.slack")

MAX_RECENT = 50
MAX_THREADS = 30


class ReadMessage(BaseModel):
    """A message that control has stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    edited: str = ""
    """Slack's time of the last edit that control has stored."""
    thread: str | None = None
    inbox_id: str = ""
    """Control's id, to which an answer refers; empty if nothing was stored."""
    is_heard: bool = False
    """Of a channel: it was for the agent."""


class SlackReadMark(BaseModel):
    """How far a user's messages were read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: str = ""
    """Messages up to this one are read, or older than the conversation."""
    edited: str = ""
    """The newest edit of a message up to `floor`."""
    recent: dict[str, ReadMessage] = Field(default_factory=dict)
    """The newest messages, all after `floor`."""
    threads: tuple[str, ...] = ()
    """Of a channel: the threads in which the agent was asked last, by their first messages."""

    @property
    def newest(self) -> str:
        """The newest message that was read."""
        return max(self.recent, key=ts_order, default=self.floor)

    @property
    def newest_heard(self) -> str | None:
        """The newest message that was for the agent; None if there is none."""
        return max((ts for ts in self.recent if self.is_heard(ts)), key=ts_order, default=None)

    def is_heard(self, ts: str) -> bool:
        """Return whether a recent message was for the agent."""
        return ts in self.recent and self.recent[ts].is_heard

    def is_read(self, message: MessageObject) -> bool:
        """Return whether control has this message, with its last edit."""
        entry = self.recent.get(message.ts)
        if entry is not None:
            return ts_order(message.edited_ts) <= ts_order(entry.edited)
        if self.is_old(message.ts):
            return ts_order(message.edited_ts) <= ts_order(self.edited)
        return False

    def is_old(self, ts: str) -> bool:
        """Return whether a message is not after the floor."""
        return ts_order(ts) <= ts_order(self.floor)

    def knows(self, ts: str) -> bool:
        """Return whether control has the message, perhaps before its last edit."""
        return ts in self.recent or self.is_old(ts)

    def thread_of(self, *, ts: str | None, inbox_id: str | None) -> str | None:
        """Return the thread of a recent message, by its id at Slack or at control."""
        for message_ts, entry in self.recent.items():
            if message_ts == ts or (inbox_id and entry.inbox_id == inbox_id):
                return entry.thread
        return None

    def follow(self, root: str) -> "SlackReadMark":
        """Return the mark after the agent was asked in a thread."""
        threads = (*(it for it in self.threads if it != root), root)[-MAX_THREADS:]
        return self.model_copy(update={"threads": threads})

    def add(
        self, message: MessageObject, inbox_id: str, *, is_heard: bool = False
    ) -> "SlackReadMark":
        """Return the mark after a message was stored, or was not for the agent of a channel."""
        if self.is_old(message.ts) and message.ts not in self.recent:
            newest = max(self.edited, message.edited_ts, key=ts_order)
            return self.model_copy(update={"edited": newest})
        before = self.recent.get(message.ts)
        entry = ReadMessage(
            edited=message.edited_ts,
            thread=message.thread,
            inbox_id=inbox_id or (before.inbox_id if before else ""),
            is_heard=is_heard,
        )
        recent = {**self.recent, message.ts: entry}
        floor, edited = self.floor, self.edited
        while len(recent) > MAX_RECENT:
            oldest = min(recent, key=ts_order)
            edited = max(edited, recent.pop(oldest).edited, key=ts_order)
            floor = max(floor, oldest, key=ts_order)
        return self.model_copy(update={"floor": floor, "edited": edited, "recent": recent})


class _MarkFile(RootModel[dict[str, SlackReadMark]]):
    """The content of the file, by user id, or by the address of a channel."""


class SlackReadMarkStore:
    """The marks of one gateway, by user id or by the address of a channel."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = _load(path)

    def find(self, user_id: str) -> SlackReadMark | None:
        """Return the mark of a user; None if no message was read yet."""
        return self._marks.get(user_id)

    async def store(self, user_id: str, mark: SlackReadMark) -> None:
        """Replace the mark of a user; it is on disk when this returns."""
        if self._marks.get(user_id) == mark:
            return
        self._marks[user_id] = mark
        content = _MarkFile(self._marks).model_dump_json()
        try:
            await asyncio.to_thread(self._write, content)
        except OSError as error:
            # Control recognises most repetitions, so go on without the file.
            log.error("read marks not stored", path=str(self._path), error=str(error))

    def _write(self, content: str) -> None:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(content)
        part.replace(self._path)


def _load(path: Path) -> dict[str, SlackReadMark]:
    try:
        return _MarkFile.model_validate_json(path.read_text()).root
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        log.error("read marks lost; messages of the downtime are not read", error=str(error))
        return {}
