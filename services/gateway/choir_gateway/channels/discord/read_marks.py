"""Marks of how far each user's messages were read, in a file that a restarted gateway continues from.

A session of Discord's gateway does not survive a restart, so the messages since the mark are fetched from the
channel's history. Called by `receiver`.
"""

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

log = structlog.get_logger("choir.gateway.discord")


@dataclass(frozen=True, slots=True)
class ReadMark:
    """The newest message and the newest edit of a user's channel that control has stored."""

    message_id: int = 0
    edited_at: float = 0.0
    """Discord's time of the edit, in seconds since 1970."""


class ReadMarkStore:
    """The marks of one gateway, by user id."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = _load(path)

    def find(self, user_id: str) -> ReadMark | None:
        """Return the mark of a user; None if no message was read yet."""
        return self._marks.get(user_id)

    async def store(self, user_id: str, mark: ReadMark) -> None:
        """Replace the mark of a user; it is on disk when this returns."""
        if self._marks.get(user_id) == mark:
            return
        self._marks[user_id] = mark
        content = json.dumps({user: asdict(it) for user, it in self._marks.items()})
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


def _load(path: Path) -> dict[str, ReadMark]:
    try:
        content = json.loads(path.read_text())
        return {
            str(user): ReadMark(int(mark["message_id"]), float(mark["edited_at"]))
            for user, mark in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.error("read marks lost; messages of the downtime are not read", error=str(error))
        return {}
