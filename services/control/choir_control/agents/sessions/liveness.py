"""Liveness of running sessions, measured with the monotonic clock (GUARANTEES R8, R9).

Wall clocks are not used: setting one forward would end every epoch, and setting it back would end
none. The state is in memory only, because every epoch is ended when control restarts.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import structlog

from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_control.agents.sessions.record import RUNNING_STATUSES, SessionRow

log = structlog.get_logger("choir.sessions")


@dataclass(slots=True)
class _EpochLiveness:
    epoch: int
    status: str
    since: float
    """When this epoch was first seen, in seconds of the monotonic clock."""
    last_seen: float
    """Last sign of life: a heartbeat or a change of status."""
    suspect: bool = False
    unanswered: int = 0
    """Number of its requests that are being processed."""


class LivenessTracker:
    """Liveness tracker of all running sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lives: dict[str, _EpochLiveness] = {}

    def beat(self, session_id: str, epoch: int) -> None:
        """Record a sign of life of the current epoch."""
        life = self._lives.get(session_id)
        if life is None or life.epoch != epoch:
            return  # the next sweep registers it
        life.last_seen = self._clock.monotonic()
        if life.suspect:
            life.suspect = False
            log.info("agent recovered: heartbeat received", session=session_id, epoch=epoch)

    @contextlib.contextmanager
    def answering(self, session_id: str, epoch: int) -> Iterator[None]:
        """Count the epoch as alive while its request is processed, and again if Postgres is unavailable.

        An agent sends one heartbeat at a time: until this one is answered, no other can arrive.
        """
        life = self._lives.get(session_id)
        if life is None or life.epoch != epoch:
            yield
            return
        life.unanswered += 1
        try:
            yield
        except Unavailable:
            self.beat(session_id, epoch)
            raise
        finally:
            life.unanswered -= 1

    def track(self, sessions: Iterable[SessionRow]) -> None:
        """Register the sessions that run now and forget all others."""
        now, lives = self._clock.monotonic(), dict[str, _EpochLiveness]()
        for session in sessions:
            if session.status not in RUNNING_STATUSES:
                continue
            life = self._lives.get(session.session_id)
            if life is None or life.epoch != session.epoch:
                life = _EpochLiveness(session.epoch, session.status, now, now)
            elif life.status != session.status:
                life.status, life.last_seen = session.status, now
            lives[session.session_id] = life
        self._lives = lives

    def reset_all(self) -> None:
        """Reset every silence, because control itself could not receive heartbeats for a while."""
        now = self._clock.monotonic()
        for life in self._lives.values():
            life.last_seen, life.suspect = now, False

    def silence_s(self, session: SessionRow) -> float:
        """Return for how many seconds a session has given no sign of life."""
        life = self._lives.get(session.session_id)
        if life is None or life.epoch != session.epoch or life.unanswered:
            return 0.0
        return self._clock.monotonic() - life.last_seen

    def epoch_age_s(self, session: SessionRow) -> float:
        """Return for how many seconds the session's epoch has been running."""
        life = self._lives.get(session.session_id)
        if life is None or life.epoch != session.epoch:
            return 0.0
        return self._clock.monotonic() - life.since

    def suspect(self, session: SessionRow) -> None:
        """Mark a session as suspect: it has missed heartbeats."""
        life = self._lives.get(session.session_id)
        if life is not None and not life.suspect:
            life.suspect = True
            log.warning("agent is suspect", agent=session.agent_id, session=session.session_id)

    def is_suspect(self, session_id: str) -> bool:
        """Return whether a session has missed heartbeats but is not lost yet."""
        life = self._lives.get(session_id)
        return life is not None and life.suspect
