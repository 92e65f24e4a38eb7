"""The worker that sends sessions to memory: ended and quiet ones whole, busy ones up to their event window.

It is woken when a session ends. The pending work is in the table `sessions` and is done at
least once; memory ignores a page that it has. While memory is unavailable the work waits. See
docs/design/log-and-recovery.md.
"""

import asyncio
import random
from collections.abc import Sequence

import orjson
import structlog

from choir_common.clients.memory import SessionMemoryClient
from choir_common.errors import ChoirError, Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.config import AgentConfig
from choir_common.wire.events import Event
from choir_common.wire.memory_sessions import ArchivePage, SessionEnd
from choir_control.configuration.current import ConfigService
from choir_control.configuration.memory_readers import MemoryReaders
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore, PendingSession, QuietTimes
from choir_control.log.eventlog.store import EventStore
from choir_control.periodic import run_periodically

log = structlog.get_logger("choir.archiving")

INTERVAL_S = 20.0
"""Seconds between sweeps for work that nobody announced: live sessions and retries."""
CONCURRENT_AGENTS = 2
"""Agents whose sessions are sent at the same time; few, because memory also serves searches."""
PAGE_EVENTS = 256
PAGE_BYTES = 2_000_000
"""Size of the payloads of one page. One event of the maximum size still fits into a NATS message."""
LIVE_MIN_EVENTS = 64
"""Pending events of a live session that justify a page."""
ERASE_TIMEOUT_S = 10.0
"""Seconds that the start of an agent waits for rehearsals to be erased from memory."""
FIRST_WAIT_S, MAX_WAIT_S = 2.0, 600.0


class SessionArchiver:
    """Worker that sends the events of sessions to the memory service."""

    def __init__(
        self,
        *,
        store: ArchiveStore,
        events: EventStore,
        memory: SessionMemoryClient,
        configuration: ConfigService,
        rehearsals: RehearsalEraser,
        page_events: int = PAGE_EVENTS,
    ) -> None:
        self._store = store
        self._events = events
        self._memory = memory
        self._configuration = configuration
        self._rehearsals = rehearsals
        self._sweep_lock = asyncio.Lock()
        self._page_events = page_events
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Start a sweep now: a session has ended."""
        self._awake.set()

    async def run(self) -> None:
        """Run sweeps until cancelled."""
        await run_periodically(INTERVAL_S, "session archiving", self.sweep, self._awake)

    async def sweep(self) -> None:
        """Send everything that is due.

        Raises Unavailable if memory or the database is unavailable.
        """
        while True:
            async with self._sweep_lock:
                await self._rehearsals.forget()
                due = await self._store.list_pending(
                    self._window + LIVE_MIN_EVENTS, CONCURRENT_AGENTS, self._quiet_times
                )
                if not due:
                    return
                async with asyncio.TaskGroup() as tasks:
                    tries = [tasks.create_task(self._try_archive(session)) for session in due]
                for attempt in tries:
                    if (error := attempt.result()) is not None:
                        raise error

    async def forget_rehearsals(self, agent_id: str) -> None:
        """Erase an agent's rehearsals from memory before its first session with a real model.

        If memory is unavailable it cannot return memories of rehearsals either; the next sweep
        erases them.
        """
        try:
            async with asyncio.timeout(ERASE_TIMEOUT_S), self._sweep_lock:
                await self._rehearsals.forget(agent_id)
        except (ChoirError, TimeoutError) as error:
            log.warning(
                "rehearsals are not erased from memory yet", agent=agent_id, error=str(error)
            )
            self.wake()

    @property
    def _window(self) -> int:
        return self._configuration.current.config.event_window

    @property
    def _quiet_times(self) -> QuietTimes:
        agents = self._configuration.current.config.agents
        default_ms: int = AgentConfig.model_fields["settle_after_ms"].default
        return QuietTimes(
            {name: agent.settle_after_ms / 1000 for name, agent in agents.items()},
            # an agent that is no longer configured may still have a suspended session
            default=default_ms / 1000,
        )

    async def _try_archive(self, session: PendingSession) -> Unavailable | None:
        """Archive one session; return the Unavailable error, if there was one, instead of raising it.

        A session that memory refuses is postponed, so that it does not delay the others.
        """
        try:
            await self._archive(session)
        except Unavailable as error:
            return error
        except (ChoirError, ValueError) as error:
            # ValueError means that a stored event is damaged.
            usual = FIRST_WAIT_S * 2.0 ** min(session.tries, 20)
            wait_s = min(MAX_WAIT_S, usual) * random.uniform(1.0, 1.25)  # noqa: S311
            log.warning(
                "a session could not be archived",
                session=session.session_id,
                agent=session.agent_id,
                error=str(error),
                again_in_s=round(wait_s),
            )
            try:
                await self._store.postpone(session.session_id, str(error), wait_s)
            except Unavailable as unavailable:
                return unavailable
        return None

    async def _archive(self, session: PendingSession) -> None:
        """Send pages until memory has every settled event; go back if memory asks for earlier ones."""
        through, rewinds = session.archived_rev, 0
        is_whole = session.ended_at is not None or session.settles
        last_rev = session.head_rev if is_whole else session.head_rev - self._window
        while True:
            events = await self._page(session.session_id, through, last_rev)
            page = self._compose(session, events)
            answer = await self._memory.archive(page)
            await self._store.set_progress(session.session_id, answer.through_rev)
            if answer.ended and session.ended_at is not None:
                await self._store.mark_archived(session.session_id)
                log.info("session archived", session=session.session_id, promoted=answer.promoted)
                return
            if page.end is None and answer.through_rev >= last_rev:
                return
            # Memory may ask for earlier pages once; a second time would be an endless loop.
            rewinds += answer.through_rev <= through
            if rewinds > 1:
                raise Conflict(
                    _("Memory stays at revision {through_rev} of {session_id}.").format(
                        through_rev=answer.through_rev, session_id=session.session_id
                    )
                )
            through = answer.through_rev

    async def _page(self, session_id: str, after: int, last_rev: int) -> tuple[Event, ...]:
        events = await self._events.read(
            session_id, after, min(self._page_events, max(0, last_rev - after))
        )
        return tuple(_as_many_as_fit(events))

    def _compose(self, session: PendingSession, events: tuple[Event, ...]) -> ArchivePage:
        end = None
        if session.ended_at is not None and (not events or events[-1].rev >= session.head_rev):
            sessions_kept = self._configuration.current.config.memory.mid_term_sessions
            end = SessionEnd(at=session.ended_at, mid_term_sessions=sessions_kept)
        return ArchivePage(
            agent_id=session.agent_id,
            session_id=session.session_id,
            started_at=session.started_at,
            events=events,
            end=end,
            home_dm=session.home_dm,
            readers=MemoryReaders(self._configuration.current.people).list_all(
                session.agent_id, session.served_dms
            ),
        )


def _as_many_as_fit(events: Sequence[Event]) -> Sequence[Event]:
    room = PAGE_BYTES
    for number, event in enumerate(events):
        room -= len(orjson.dumps(event.payload))
        if room < 0 and number:
            return events[:number]
    return events
