"""Control's notes to users by mail: those of a few seconds are one mail.

In memory only, as on other channels: the effects of a command are durable, and its result can be requested
again. A note about an answer to a question is dropped if the corrected question arrives instead.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.messages import DmBinding
from choir_common.wire.pairing import paired_dm

log = structlog.get_logger("choir.gateway.email")

MAX_PENDING = 50
"""Notes per user; later ones are dropped."""
COLLECT_S = 3.0
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 60.0
GIVE_UP_S = 7200.0
"""Longer than the limit of mails in an hour makes them wait."""
MAX_CORRECTIONS = 100


@dataclass(frozen=True, slots=True)
class _Note:
    text: str
    question: str | None


class NotesSender(Protocol):
    """The sender of a mailbox."""

    async def send_notes(self, dm: DmBinding, texts: list[str]) -> None:
        """Send notes in one mail. Raises Unavailable."""
        ...


class NoteMailer:
    """Queues of the pending notes, by conversation."""

    def __init__(self, sender: NotesSender, *, collect_s: float = COLLECT_S) -> None:
        self._sender = sender
        self._collect_s = collect_s
        self._pending: dict[str, list[_Note]] = {}
        self._conversations: asyncio.Queue[DmBinding] = asyncio.Queue()
        self._corrections: OrderedDict[tuple[str, str], float] = OrderedDict()

    def add(self, dm: DmBinding, text: str, *, question: str | None = None) -> None:
        """Queue a note; `question` is the short id of the mail whose answer it is about."""
        corrected_at = self._corrections.get((dm.name, question or ""), 0.0)
        if corrected_at > _now() - 2 * self._collect_s:
            return
        notes = self._pending.get(dm.name)
        if notes is None:
            self._pending[dm.name] = [_Note(text, question)]
            self._conversations.put_nowait(dm)
        elif len(notes) < MAX_PENDING:
            notes.append(_Note(text, question))
        else:
            log.warning("note dropped", dm=dm.name, waiting=len(notes))

    def note_correction(self, dm: str, question: str) -> None:
        """Drop the notes about a question: the user gets its corrected text."""
        self._corrections[dm, question] = _now()
        while len(self._corrections) > MAX_CORRECTIONS:
            self._corrections.popitem(last=False)
        notes = self._pending.get(dm, [])
        notes[:] = [note for note in notes if note.question != question]

    async def run(self) -> None:
        """Send notes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._send_all(await self._conversations.get()))

    async def _send_all(self, dm: DmBinding) -> None:
        notes = self._pending[dm.name]
        await asyncio.sleep(self._collect_s)
        until, backoff = _now() + GIVE_UP_S, Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while notes:
            batch = list(notes)
            try:
                await self._sender.send_notes(dm, [note.text for note in batch])
            except OutcomeUnknown:
                # They have probably arrived, and a copy could not be recognised.
                notes[:] = [note for note in notes if note not in batch]
            except Unavailable as error:
                wait_s = max(error.retry_after_s or 0.0, backoff.pause_s())
                if _now() + wait_s > until:
                    log.warning("notes not sent", dm=dm.name, count=len(notes), error=error.message)
                    break
                await asyncio.sleep(wait_s)
            except Exception:  # outermost loop of the notes: continue with those of other users
                log.exception("notes not sent", dm=dm.name)
                break
            else:
                notes[:] = [note for note in notes if note not in batch]
        del self._pending[dm.name]


class StrangerMailer:
    """Sender of the replies to strangers, who have no conversation yet; implements `StrangerNotes`."""

    def __init__(self, gateway: str, notes: NoteMailer) -> None:
        self._gateway = gateway
        self._notes = notes

    def add(self, user_id: str, text: str) -> None:
        """Queue a mail to an address."""
        name = paired_dm(self._gateway, user_id)
        dm = DmBinding(name=name, gateway=self._gateway, user_id=user_id, admin=False)
        self._notes.add(dm, text)


def _now() -> float:
    return asyncio.get_running_loop().time()
