"""Marks of how far each conversation was read, in a file that a restarted gateway continues from.

A session of Discord's gateway does not survive a restart, so the messages since the mark are fetched from the
channel's history. Called by `receiver`.
"""

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

# Of a thread without a mark, what is newer than the mark of its channel is read.
MAX_THREADS = 200

log = structlog.get_logger("choir.gateway.discord")


@dataclass(frozen=True, slots=True)
class DiscordReadMark:
    """The newest message and the newest edit of a channel or thread that control has stored."""

    message_id: int = 0
    edited_at: float = 0.0
    """Discord's time of the edit, in seconds since 1970."""


class ReadMarkStore:
    """The marks of one gateway, by `DiscordPlace.mark`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = _load(path)

    def find(self, place: str) -> DiscordReadMark | None:
        """Return a mark; None if no message was read yet."""
        return self._marks.get(place)

    async def store(self, place: str, mark: DiscordReadMark) -> None:
        """Replace a mark; it is on disk when this returns."""
        if self._marks.get(place) == mark:
            return
        self._marks[place] = mark
        self._forget_old_threads()
        content = json.dumps({name: asdict(it) for name, it in self._marks.items()})
        try:
            await asyncio.to_thread(self._write, content)
        except OSError as error:
            # Control recognises most repetitions, so go on without the file.
            log.error("read marks not stored", path=str(self._path), error=str(error))

    def _forget_old_threads(self) -> None:
        threads = [name for name in self._marks if name.startswith("thread ")]
        if len(threads) > MAX_THREADS:
            del self._marks[min(threads, key=lambda name: self._marks[name].message_id)]

    def _write(self, content: str) -> None:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(content)
        part.replace(self._path)


def _load(path: Path) -> dict[str, DiscordReadMark]:
    try:
        content = json.loads(path.read_text())
        return {
            str(place): DiscordReadMark(int(mark["message_id"]), float(mark["edited_at"]))
            for place, mark in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.error("read marks lost; messages of the downtime are not read", error=str(error))
        return {}
