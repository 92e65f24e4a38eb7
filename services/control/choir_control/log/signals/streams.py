"""Streams of a session's signals, open as long as its epoch lasts.

A notification in this process wakes a stream at once; one poll per second for all streams finds
signals that were stored without one. See docs/design/protocol.md.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator

import structlog

from choir_common.errors import RateLimited, Unavailable
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import KEEPALIVE, KEEPALIVE_S, render_event
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import Lease
from choir_control.log.signals.file_fetches import FileFetches, MessageFileFetcher
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore, StoredSignal

log = structlog.get_logger("choir.signals")

PAGE = 200
POLL_S = 1.0
# An agent uses one stream; a reconnect may overlap with the old one.
STREAMS_PER_SESSION = 4


class SignalStreams:
    """The open signal streams of all sessions."""

    def __init__(
        self,
        *,
        store: SignalStore,
        notifier: Notifier,
        authenticator: LeaseAuthenticator,
        file_fetcher: MessageFileFetcher,
        signal_locks: SignalLocks,
    ) -> None:
        self._signal_locks = signal_locks
        self._file_fetcher = file_fetcher
        self._store = store
        self._notifier = notifier
        self._authenticator = authenticator
        self._closing = False
        self._streams: Counter[str] = Counter()

    def close(self) -> None:
        """End all streams, because the process shuts down."""
        self._closing = True
        self._notifier.notify_all()

    @property
    def closing(self) -> bool:
        """Return True if all streams are to end."""
        return self._closing

    def follow(self, lease: Lease, last_event_id: int) -> AsyncIterator[bytes]:
        """Yield the bytes of an event stream: pending signals after `last_event_id`, then new ones.

        Raises RateLimited if the session has too many streams open.
        """
        if self._streams[lease.session_id] >= STREAMS_PER_SESSION:
            raise RateLimited("This session has too many signal streams open.")
        return self._counted(lease, last_event_id)

    async def _counted(self, lease: Lease, last_event_id: int) -> AsyncIterator[bytes]:
        self._streams[lease.session_id] += 1
        try:
            async with contextlib.aclosing(self._follow(lease, last_event_id)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._streams[lease.session_id] -= 1
            if not self._streams[lease.session_id]:
                del self._streams[lease.session_id]

    async def _follow(self, lease: Lease, last_event_id: int) -> AsyncGenerator[bytes, None]:
        dms = self._signal_locks.conversations_of(lease.dm)
        with self._notifier.listen(lease.session_id, *dms) as wakeup:
            fetches = FileFetches(
                lease,
                store=self._store,
                fetcher=self._file_fetcher,
                signal_locks=self._signal_locks,
                wakeup=wakeup,
            )
            # Sent at once, so that the client sees that the stream is open.
            yield KEEPALIVE
            async with fetches:
                pieces = self._pieces(lease, last_event_id, fetches, wakeup)
                async with contextlib.aclosing(pieces):
                    async for piece in pieces:
                        yield piece

    async def _pieces(
        self, lease: Lease, cursor: int, fetches: FileFetches, wakeup: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        dms = self._signal_locks.conversations_of(lease.dm)
        quiet_since = asyncio.get_running_loop().time()
        knows_overtaken = cursor == 0
        # After a change of its conversations the agent opens the stream again.
        while not self._closing and dms == self._signal_locks.conversations_of(lease.dm):
            # Cleared before the read, so that a signal stored during it causes another read.
            wakeup.clear()
            fetches.forget_finished()
            if not knows_overtaken:
                knows_overtaken = await self._fetch_overtaken(lease, cursor, fetches)
                continue
            page = await self._read_page(lease, cursor)
            if page is None:
                return
            for signal in page:
                cursor = signal.seq
                if signal.is_delayed:
                    fetches.begin(signal)
                else:
                    event = ServerSentEvent(str(signal.seq), signal.kind, signal.body)
                    yield render_event(event)
            now = asyncio.get_running_loop().time()
            if page:
                quiet_since = now
            if len(page) == PAGE:
                continue  # there may be more
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, quiet_since + KEEPALIVE_S - now)):
                    await wakeup.wait()
            if not wakeup.is_set():
                quiet_since += KEEPALIVE_S
                yield KEEPALIVE

    async def _fetch_overtaken(
        self, lease: Lease, last_event_id: int, fetches: FileFetches
    ) -> bool:
        """Take care of what an earlier stream passed by; return False to try again.

        The files of messages are fetched. What waited for a message that was erased gets new numbers.
        """
        try:
            for orphan in await self._store.list_orphaned(
                lease.session_id, lease.dm, last_event_id
            ):
                async with self._signal_locks.of(orphan.dm):
                    await self._store.renumber(
                        lease, orphan.dm, orphan.first, sent_through=last_event_id
                    )
            for signal in await self._store.list_overtaken(
                lease.session_id, lease.dm, last_event_id
            ):
                fetches.begin(signal)
        except Unavailable as error:
            log.warning(
                "signals wait for the database", session=lease.session_id, error=error.message
            )
            await asyncio.sleep(POLL_S)
            return False
        return True

    async def _read_page(self, lease: Lease, cursor: int) -> list[StoredSignal] | None:
        """Return the next page; None if the epoch is over, an empty page without a database."""
        try:
            if not await self._authenticator.is_current(lease):
                return None
            page = await self._store.list_pending(lease.session_id, lease.dm, cursor, PAGE)
            await self._store.mark_delayed(page)
            return page
        except Unavailable as error:
            log.warning(
                "signals wait for the database", session=lease.session_id, error=error.message
            )
            await asyncio.sleep(POLL_S)
            return []

    async def poll(self) -> None:
        """Notify all streams when the table has grown, until cancelled."""
        seen, was_away = 0, True
        while True:
            try:
                newest = await self._store.read_newest_seq()
                if newest != seen or was_away:
                    self._notifier.notify_all()
                seen, was_away = newest, False
            except Unavailable:
                was_away = True
            except Exception:  # outermost loop: retry
                log.exception("signal poll failed")
            await asyncio.sleep(POLL_S)
