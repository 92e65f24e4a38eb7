"""Take note of a crash: end the epoch, decide whether the session is resumed or abandoned.

Called by `mend` (exits and silence), `start` (a launch that failed) and the rpc door (an agent that
ends itself unasked). The sweep of `mend` resumes what is due.
"""

from datetime import timedelta

import structlog

from choir_control.configuration.current import Configuration
from choir_control.sessions.closing import Closing
from choir_control.sessions.record import SessionRow
from choir_control.sessions.store import SessionStore
from choir_control.sessions.vitals import Vitals

log = structlog.get_logger("choir.sessions")

MAX_RESUMES = 3
# a session that completes something in each life and crashes again, and again, with nobody talking to it
MAX_IDLE_RESUMES = 8
# crashes further apart than this have nothing to do with each other
STABLE_S = 600.0
# the first resume is at once: most crashes do not repeat
BACKOFF = (timedelta(0), timedelta(seconds=1), timedelta(seconds=3))


class Crashes:
    """What becomes of a session whose agent is gone."""

    def __init__(
        self,
        store: SessionStore,
        closing: Closing,
        configuration: Configuration,
        vitals: Vitals,
    ) -> None:
        self._store = store
        self._vitals = vitals
        self._closing = closing
        self._configuration = configuration

    async def note(self, session: SessionRow, why: str, *, counts: bool = True) -> None:
        """End the epoch of `session`; nothing happens if it is over already.

        `counts` is false when the crash says nothing against the session: control itself restarted
        while nobody waited for an answer.
        """
        if session.status == "stopping":
            await self._closing.stop(session.session_id, session.end_reason or why)
            return
        afresh = self._vitals.lived_s(session) >= STABLE_S
        if counts and not afresh and _is_poison(session) and self._resumes(session):
            await self._closing.close(session.session_id, "abandoned", why, with_waiting=True)
            return
        resume_in = self._resume_in(session, counts and not afresh)
        if await self._store.mark_crashed(
            session, counts=counts, afresh=afresh, resume_in=resume_in
        ):
            log.warning(
                "agent crashed",
                agent=session.agent_id,
                session=session.session_id,
                epoch=session.epoch,
                why=why,
                resume_in_s=resume_in.total_seconds() if resume_in is not None else None,
            )
        self._closing.announce(session.session_id)

    def _resumes(self, session: SessionRow) -> bool:
        agent = self._configuration.current.config.agents.get(session.agent_id)
        return agent is not None and agent.restart == "on-crash"

    def _resume_in(self, session: SessionRow, counts: bool) -> timedelta | None:
        if not self._resumes(session):
            return None
        return BACKOFF[min(session.resumes, len(BACKOFF) - 1)] if counts else timedelta(0)


def _is_poison(session: SessionRow) -> bool:
    """Tell whether a session that crashed has used up its resumes."""
    return session.resumes >= MAX_RESUMES or session.idle_resumes >= MAX_IDLE_RESUMES
