"""Fetches of the files of messages, for one signal stream: only the conversation of a message waits for them.

Signals of a session share one cursor. So when the files are there, the message and what follows it in its
conversation get new numbers, behind everything that the stream has sent meanwhile.
"""

import asyncio
from typing import Protocol, Self

import structlog

from choir_common.errors import ChoirError
from choir_control.log.leases.store import Lease
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.store import SignalStore, StoredSignal

log = structlog.get_logger("choir.signals")

RETRY_S = 1.0


class MessageFileFetcher(Protocol):
    """Service that fetches the files of users' messages."""

    async def bring(
        self, lease: Lease, inbox_id: str, *, dm: str, signal_locks: SignalLocks
    ) -> bool:
        """Fetch the files of a message and give its signals new numbers; return False if it was erased."""


class FileFetches:
    """The fetches of one stream, by message. Use it as a context manager: its end cancels them."""

    def __init__(
        self,
        lease: Lease,
        *,
        store: SignalStore,
        fetcher: MessageFileFetcher,
        signal_locks: SignalLocks,
        wakeup: asyncio.Event,
    ) -> None:
        """Create the fetches; `wakeup` is set whenever one has ended."""
        self._lease = lease
        self._store = store
        self._fetcher = fetcher
        self._signal_locks = signal_locks
        self._wakeup = wakeup
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def begin(self, signal: StoredSignal) -> None:
        """Begin to fetch the files of a signal's message, unless that is under way."""
        if signal.to_fetch is None or signal.dm is None or signal.to_fetch in self._tasks:
            return
        task = asyncio.create_task(self._fetch(signal.dm, signal.to_fetch, signal.seq))
        task.add_done_callback(lambda _: self._wakeup.set())
        self._tasks[signal.to_fetch] = task

    def forget_finished(self) -> None:
        """Forget the fetches that have ended."""
        for inbox_id, task in [*self._tasks.items()]:
            if task.done():
                del self._tasks[inbox_id]
                task.result()

    async def _fetch(self, dm: str, inbox_id: str, seq: int) -> None:
        while True:
            try:
                if not await self._fetcher.bring(
                    self._lease, inbox_id, dm=dm, signal_locks=self._signal_locks
                ):
                    await self._renumber_rest(dm, seq)
                return
            except ChoirError as error:
                log.warning(
                    "files not staged yet; retrying",
                    session=self._lease.session_id,
                    error=error.message,
                )
            await asyncio.sleep(RETRY_S)

    async def _renumber_rest(self, dm: str, seq: int) -> None:
        async with self._signal_locks.of(dm):
            await self._store.renumber(self._lease, dm, seq)
