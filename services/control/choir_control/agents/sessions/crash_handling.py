"""Crash handling: end the epoch and decide whether the session is resumed or abandoned.

`CrashRecovery` detects crashes and resumes the sessions that are due.
"""

from datetime import timedelta

import structlog

from choir_common.i18n import _
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService

log = structlog.get_logger("choir.sessions")

MAX_RESUMES = 3
REASON_UNCONFIGURED = "it is no longer in the configuration"
# A session that completes something in every epoch and crashes again, without any new user message, must be
# abandoned too.
MAX_IDLE_RESUMES = 8
# Crashes further apart than this are treated as unrelated.
STABLE_S = 600.0
# The first resume is immediate, because most crashes do not repeat.
START_RETRY = timedelta(seconds=1)
LAUNCH_RETRY = timedelta(seconds=10)
BACKOFF = (timedelta(0), timedelta(seconds=1), timedelta(seconds=3))


class CrashHandler:
    """Service that ends the epochs of crashed agents and decides what happens to their sessions."""

    def __init__(
        self,
        *,
        store: SessionStore,
        closer: SessionCloser,
        configuration: ConfigService,
        liveness: LivenessTracker,
    ) -> None:
        self._store = store
        self._liveness = liveness
        self._closer = closer
        self._configuration = configuration
        self._failed_starts: set[str] = set()
        """Sessions whose agent died before its handshake at the last start."""

    async def end_rehearsal(self, session: SessionRow) -> None:
        """End an unfinished rehearsal, because the agent now uses a real model."""
        await self._closer.close(
            session.session_id, "stopped", "a real model replaces the rehearsal"
        )

    async def end_without_resources(self, session: SessionRow) -> None:
        """End an unfinished session whose workspace, model or DM is no longer available to it."""
        why = "its workspace, model or conversation is no longer assigned to it in config.json"
        await self._closer.close(session.session_id, "stopped", why)

    async def end_unconfigured(self, session: SessionRow) -> None:
        """End a suspended session whose agent is no longer configured, because nobody can start it again."""
        now = await self._store.get(session.session_id)
        is_removed = session.agent_id not in self._configuration.current.config.agents
        if is_removed and now is not None and now.status == "suspended":
            await self._closer.close(session.session_id, "stopped", REASON_UNCONFIGURED)

    async def note(self, session: SessionRow, why: str, *, counts: bool = True) -> None:
        """End the epoch of `session`; do nothing if it is over already.

        `counts` is False when the crash is not the session's fault: control itself restarted.
        """
        if session.status == "stopping":
            await self._closer.stop(session.session_id, session.end_reason or why)
            return
        if session.status == "starting" and counts:
            await self._retry_start(session, why)
            return
        self._failed_starts.discard(session.session_id)
        afresh = self._liveness.epoch_age_s(session) >= STABLE_S
        # with restart `never` there is no resume loop to stop, so the session waits for a start
        if counts and not afresh and _has_used_up_resumes(session) and self._resumes(session):
            await self._closer.close(session.session_id, "abandoned", why, with_waiting=True)
            return
        resume_in = self._resume_in(session, counts and not afresh)
        if await self._store.mark_crashed(
            session, counts=counts, reset_counters=afresh, resume_in=resume_in
        ):
            log.warning(
                "agent crashed",
                agent=session.agent_id,
                session=session.session_id,
                epoch=session.epoch,
                reason=why,
                resume_in_s=resume_in.total_seconds() if resume_in is not None else None,
            )
        self._closer.announce(session.session_id)

    async def _retry_start(self, session: SessionRow, why: str) -> None:
        """Retry a failed start once before notifying the user: the machine may only have been busy."""
        if session.session_id in self._failed_starts:
            await self.handle_failed_start(session, why)
            return
        self._failed_starts.add(session.session_id)
        resume_in = START_RETRY if self._resumes(session) else None
        await self._store.mark_crashed(session, counts=False, resume_in=resume_in)
        log.warning("agent died during its start, retrying", agent=session.agent_id, reason=why)
        self._closer.announce(session.session_id)

    async def handle_failed_start(self, session: SessionRow, why: str) -> None:
        """Postpone a session whose agent could not be started, and notify its users once.

        This does not count as a crash: the image, the workspace or the machine is at fault.
        """
        if session.status == "starting":
            await self._store.mark_crashed(session, counts=False, resume_in=None)
        resume_in = LAUNCH_RETRY if self._resumes(session) else None
        notice = _(
            "{agent} cannot be started: {why} Your messages are stored; it continues once this is fixed."
        ).format(agent=session.agent_id, why=why)
        dms = await self._store.postpone_and_notify(
            session.session_id, why, notice, resume_in, self._configuration
        )
        write_log = log.error if dms else log.info
        write_log(
            "agent cannot be started", agent=session.agent_id, session=session.session_id, why=why
        )
        self._closer.announce(session.session_id)
        for dm in dms:
            self._closer.deliver(dm)

    def _resumes(self, session: SessionRow) -> bool:
        agent = self._configuration.current.config.agents.get(session.agent_id)
        return agent is not None and agent.restart == "on-crash"

    def _resume_in(self, session: SessionRow, counts: bool) -> timedelta | None:
        if not self._resumes(session):
            return None
        return BACKOFF[min(session.crashes, len(BACKOFF) - 1)] if counts else timedelta(0)


def _has_used_up_resumes(session: SessionRow) -> bool:
    """Return whether a crashed session has used up its resumes."""
    return session.crashes >= MAX_RESUMES or session.idle_crashes >= MAX_IDLE_RESUMES
