"""The threads of a conversation: the headers of its recent mail, from which those of an answer are made.

A file per conversation, erased with the conversation. It also says which mail combined which notices.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from choir_common.keyed_lock import KeyedLock
from choir_gateway.channels.spool import FileSpool

log = structlog.get_logger("choir.gateway.email")

MAX_MAILS = 300


@dataclass(frozen=True, slots=True)
class ThreadMail:
    """A mail of a conversation."""

    message_id: str
    subject: str
    references: tuple[str, ...] = ()
    is_users: bool = False


@dataclass(frozen=True, slots=True)
class CombinedNotices:
    """Notices that were combined into the mail of the first one."""

    first: str
    """The short id of the first, which the mail has."""
    others: tuple[str, ...]
    """The short ids of the others."""
    is_sent: bool = False


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What is known about a conversation."""

    mails: Mapping[str, ThreadMail] = field(default_factory=dict)
    """By short id, newest last."""
    combined: CombinedNotices | None = None

    def newest(self, *, is_users: bool) -> ThreadMail | None:
        """Return the newest mail of the user or to the user."""
        return next(
            (it for it in reversed([*self.mails.values()]) if it.is_users == is_users),
            None,
        )


class ThreadStore:
    """Store of the threads of one gateway."""

    def __init__(self, spool: FileSpool, gateway: str) -> None:
        self._spool = spool
        self._file_name = f"email-{gateway}.json"
        self._locks = KeyedLock()

    async def load(self, dm: str) -> ThreadState:
        """Return the state of a conversation."""
        return await asyncio.to_thread(self._load, dm)

    async def add(self, dm: str, key: str, mail: ThreadMail) -> None:
        """Store a mail as the newest one."""
        async with self._locks.of(dm):
            state = await self.load(dm)
            mails = {name: it for name, it in state.mails.items() if name != key} | {key: mail}
            recent = dict(list(mails.items())[-MAX_MAILS:])
            await asyncio.to_thread(self._write, dm, replace(state, mails=recent))

    async def set_combined(self, dm: str, combined: CombinedNotices) -> None:
        """Store which notices a mail combines; it is on disk when this returns."""
        async with self._locks.of(dm):
            state = await self.load(dm)
            await asyncio.to_thread(self._write, dm, replace(state, combined=combined))

    def _load(self, dm: str) -> ThreadState:
        try:
            return _parse(json.loads(self._path(dm).read_text()))
        except FileNotFoundError:
            return ThreadState()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("threads lost; answers begin new ones", dm=dm, error=str(error))
            return ThreadState()

    def _write(self, dm: str, state: ThreadState) -> None:
        path = self._path(dm)
        try:
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.touch(0o600)
            part.write_text(json.dumps(asdict(state)))
            part.replace(path)
        except OSError as error:
            log.error("threads not stored; answers begin new ones", dm=dm, error=str(error))

    def _path(self, dm: str) -> Path:
        return self._spool.own_file_path(dm, self._file_name)


def _parse(content: Any) -> ThreadState:
    combined = content["combined"]
    return ThreadState(
        mails={
            str(key): ThreadMail(
                message_id=str(mail["message_id"]),
                subject=str(mail["subject"]),
                references=tuple(map(str, mail["references"])),
                is_users=bool(mail["is_users"]),
            )
            for key, mail in content["mails"].items()
        },
        combined=CombinedNotices(
            first=str(combined["first"]),
            others=tuple(map(str, combined["others"])),
            is_sent=bool(combined["is_sent"]),
        )
        if combined
        else None,
    )
