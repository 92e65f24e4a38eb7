"""Notice crashes and mend them: the runtime's exits, silence, and sessions due to be resumed.

One task follows exits; one sweeps every second or when woken. Called by `app`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError, Unavailable
from choir_control.configuration.current import Configuration
from choir_control.runtimes.port import AgentExit, AgentRuntime
from choir_control.sessions.crash import Crashes
from choir_control.sessions.record import SessionRow
from choir_control.sessions.start import Starter
from choir_control.sessions.store import SessionStore
from choir_control.sessions.turns import AgentTurns
from choir_control.signals.bell import Bell

log = structlog.get_logger("choir.sessions")

SWEEP_S = 1.0
# an interpreter under load, a container engine that pulls itself together
START_DEADLINE = timedelta(seconds=15)
# a stop that lost the database in the middle leaves a session that nobody ends
STOP_DEADLINE = timedelta(seconds=45)


class Mender:
    """Keeps agents running that should run."""

    def __init__(
        self,
        store: SessionStore,
        configuration: Configuration,
        starter: Starter,
        crashes: Crashes,
        runtime: AgentRuntime,
        turns: AgentTurns,
        bell: Bell,
        clock: Clock,
        release: Callable[[str], Coroutine[None, None, None]],
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._starter = starter
        self._crashes = crashes
        self._runtime = runtime
        self._turns = turns
        self._bell = bell
        self._clock = clock
        self._release = release
        self._wake = asyncio.Event()
        self._resuming: set[str] = set()
        # exits that could not be noted while the database was away: one per agent at most
        self._unnoted: dict[str, AgentExit] = {}
        self._trusted_since = clock.monotonic()
        self._last_round = clock.monotonic()

    async def run(self) -> None:
        """Mend until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_exits(tasks), name="exits")
            while True:
                self._wake.clear()
                await self._round(tasks)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), SWEEP_S)

    async def _follow_exits(self, tasks: asyncio.TaskGroup) -> None:
        async for gone in self._runtime.exits():
            log.info(
                "agent exited",
                agent=gone.agent_id,
                session=gone.session_id,
                epoch=gone.epoch,
                code=gone.code,
                detail=gone.detail,
            )
            # a stop that waits for this process looks at once
            self._bell.ring(gone.session_id)
            tasks.create_task(self._release_all(gone), name="release")
            self._unnoted[gone.agent_id] = gone
            await self._note_exits()

    async def _release_all(self, gone: AgentExit) -> None:
        try:
            await self._release(gone.agent_id)
        except Exception:  # the outermost frame of this task
            log.exception("release failed", agent=gone.agent_id)

    async def _note_exits(self) -> None:
        """Treat each exit as a crash if its epoch was still meant to run; again later if that fails."""
        for agent_id, gone in list(self._unnoted.items()):
            try:
                await self._note_exit(gone)
            except Unavailable as error:
                log.warning("exit waits for the database", agent=agent_id, error=error.message)
                return
            except Exception:  # the outermost frame of an exit; silence will tell again
                log.exception("exit could not be noted", agent=agent_id)
            if self._unnoted.get(agent_id) is gone:
                del self._unnoted[agent_id]

    async def _note_exit(self, gone: AgentExit) -> None:
        session = await self._store.get(gone.session_id)
        if session and session.epoch == gone.epoch and session.status in ("starting", "active"):
            detail = gone.detail or f"exit code {gone.code}"
            await self._crashes.note(session, f"its process ended: {detail}")
            self._wake.set()

    async def _round(self, tasks: asyncio.TaskGroup) -> None:
        try:
            await self._note_exits()
            if self._may_judge_silence():
                for session in await self._silent():
                    await self._end_silent(session)
            for session in await self._store.due():
                if session.session_id not in self._resuming:
                    self._resuming.add(session.session_id)
                    tasks.create_task(self._resume(session))
        except Unavailable as error:
            self._trusted_since = self._clock.monotonic()
            log.warning("sweep waits for the database", error=error.message)
        except Exception:  # the outermost loop: the next round may fare better
            log.exception("sweep failed")

    def _may_judge_silence(self) -> bool:
        """Tell whether heartbeats could have been stored for long enough to blame an agent.

        While the database was away or this process stood still, silence was our fault.
        """
        now = self._clock.monotonic()
        if now - self._last_round > 3 * SWEEP_S:
            self._trusted_since = now
        self._last_round = now
        return now - self._trusted_since > self._threshold().total_seconds()

    def _threshold(self) -> timedelta:
        config = self._configuration.current.config
        return timedelta(milliseconds=config.crash_detection_threshold_ms)

    async def _silent(self) -> list[SessionRow]:
        return await self._store.silent(self._threshold(), START_DEADLINE, STOP_DEADLINE)

    async def _end_silent(self, session: SessionRow) -> None:
        lock = self._turns.of(session.agent_id)
        if lock.locked():
            return  # being started or stopped right now; the next round looks again
        async with lock:
            await self._crashes.note(session, "it sent no heartbeat for too long")
            await self._runtime.stop(session.agent_id, 0)
        self._wake.set()

    async def _resume(self, session: SessionRow) -> None:
        try:
            await self._starter.resume(session)
        except ChoirError as error:
            log.warning("resume failed", session=session.session_id, error=error.message)
        except Exception:  # the outermost loop of a resume
            log.exception("resume failed", session=session.session_id)
        finally:
            self._resuming.discard(session.session_id)
            self._wake.set()
