"""Crash detection and recovery: process exits, missed heartbeats and sessions due to be resumed.

One task follows process exits; another sweeps every second, or when woken.
"""

import asyncio
import contextlib

import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.config import Config
from choir_control.agents.host_tools.browse import BrowseTool
from choir_control.agents.runtimes.port import AgentExit, AgentRuntime
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.record import RUNNING_STATUSES, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.signals.notifier import Notifier

log = structlog.get_logger("choir.sessions")

SWEEP_S = 1.0
# If the query takes this long, heartbeats were not stored in time either.
SLOW_QUERY_S = 1.0
STALLED_S = 3 * SWEEP_S
# Allows for a slow interpreter under load or a busy container engine.
START_DEADLINE_S = 15.0


class CrashRecovery:
    """Supervisor that detects crashed agents and resumes their sessions."""

    def __init__(
        self,
        *,
        store: SessionStore,
        configuration: ConfigService,
        starter: SessionStarter,
        crash_handler: CrashHandler,
        runtime: AgentRuntime,
        agent_locks: KeyedLock,
        notifier: Notifier,
        clock: Clock,
        liveness: LivenessTracker,
        browse_tool: BrowseTool,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._starter = starter
        self._crash_handler = crash_handler
        self._runtime = runtime
        self._agent_locks = agent_locks
        self._notifier = notifier
        self._clock = clock
        self._browse_tool = browse_tool
        self._wake = asyncio.Event()
        self._resuming: set[str] = set()
        # exits not recorded yet because the database was unavailable: at most one per agent
        self._unnoted: dict[str, AgentExit] = {}
        self._liveness = liveness
        self._last_round = clock.monotonic()

    async def run(self) -> None:
        """Detect and recover until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_exits(tasks), name="exits")
            while True:
                self._wake.clear()
                await self._sweep(tasks)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SWEEP_S):
                        await self._wake.wait()

    async def _follow_exits(self, tasks: asyncio.TaskGroup) -> None:
        async for agent_exit in self._runtime.exits():
            log.info(
                "agent exited",
                agent=agent_exit.agent_id,
                session=agent_exit.session_id,
                epoch=agent_exit.epoch,
                code=agent_exit.code,
                detail=agent_exit.detail,
            )
            # wake a stop that waits for this process
            self._notifier.notify(agent_exit.session_id)
            tasks.create_task(self._close_browser(agent_exit), name="close browser")
            self._unnoted[agent_exit.agent_id] = agent_exit
            await self._record_exits()

    async def _close_browser(self, agent_exit: AgentExit) -> None:
        try:
            await self._browse_tool.close_context(agent_exit.agent_id)
        except Exception:  # the outermost frame of this task
            log.exception("release failed", agent=agent_exit.agent_id)

    async def _record_exits(self) -> None:
        """Record each exit as a crash if its epoch was meant to run; retry later if that fails."""
        for agent_id, agent_exit in list(self._unnoted.items()):
            try:
                await self._record_exit(agent_exit)
            except Unavailable as error:
                log.warning(
                    "database unavailable, exit recorded later", agent=agent_id, error=error.message
                )
                return
            # the outermost handler of an exit; the missing heartbeats show it again
            except Exception:
                log.exception("exit not recorded", agent=agent_id)
            # a newer exit of the same agent may have replaced this one during the await
            if self._unnoted.get(agent_id) is agent_exit:
                del self._unnoted[agent_id]

    async def _record_exit(self, agent_exit: AgentExit) -> None:
        session = await self._store.get(agent_exit.session_id)
        if (
            session
            and session.epoch == agent_exit.epoch
            and session.status in ("starting", "active")
        ):
            detail = agent_exit.detail or _("exit code {code}").format(code=agent_exit.code)
            await self._crash_handler.note(
                session, _("its process ended: {detail}").format(detail=detail)
            )
            self._wake.set()

    async def _sweep(self, tasks: asyncio.TaskGroup) -> None:
        try:
            await self._record_exits()
            await self._check_liveness()
            await self._end_unconfigured()
            for session in await self._store.list_due_for_resume():
                if session.session_id not in self._resuming:
                    self._resuming.add(session.session_id)
                    tasks.create_task(self._resume(session))
        except Unavailable as error:
            self._liveness.reset_all()
            log.warning("database unavailable, retrying", error=error.message)
        except Exception:  # the outermost loop: the next sweep may succeed
            log.exception("sweep failed")

    async def _end_unconfigured(self) -> None:
        """End the suspended sessions of agents that are no longer configured."""
        for session in await self._store.list_suspended():
            lock = self._agent_locks.of(session.agent_id)
            # while the lock is taken, the agent is being started or stopped; the next sweep checks
            # again
            if session.agent_id in self._configuration.current.config.agents or lock.locked():
                continue
            async with lock:
                await self._crash_handler.end_unconfigured(session)

    async def _check_liveness(self) -> None:
        """Mark sessions that missed heartbeats as suspect, and end those that are lost.

        While the database was slow or unavailable, or this process was not running, silence is not the
        agents' fault.
        """
        before = self._clock.monotonic()
        sessions = [row for row in await self._store.list_live() if row.status in RUNNING_STATUSES]
        now = self._clock.monotonic()
        if now - before > SLOW_QUERY_S or now - self._last_round > STALLED_S:
            self._liveness.reset_all()
        self._last_round = now
        self._liveness.track(sessions)
        suspect_s, lost_s = liveness_thresholds(self._configuration.current.config)
        for session in sessions:
            silence_s = self._liveness.silence_s(session)
            if silence_s > (START_DEADLINE_S if session.status == "starting" else lost_s):
                await self._end_lost(session)
            elif silence_s > suspect_s and session.status == "active":
                self._liveness.suspect(session)

    async def _end_lost(self, session: SessionRow) -> None:
        lock = self._agent_locks.of(session.agent_id)
        if lock.locked():
            return  # being started or stopped now; the next sweep checks again
        async with lock:
            # fence first, so that anything it still sends is refused before its process is gone
            await self._crash_handler.note(session, _("it sent no heartbeat for too long"))
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


def liveness_thresholds(config: Config) -> tuple[float, float]:
    """Return the silence in seconds after which an agent is suspect, and after which it is lost.

    An agent is suspect when it has certainly missed a heartbeat, but not before half the time to being lost.
    """
    lost_s = config.crash_detection_threshold_ms / 1000
    return max(1.5 * config.heartbeat_interval_ms / 1000, lost_s / 2), lost_s
