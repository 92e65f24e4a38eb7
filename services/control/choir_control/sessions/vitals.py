"""Know how long each running session has been silent, by a clock that never jumps (GUARANTEES R8, R9).

Fed by the rpc door (heartbeats) and by `mend`, which asks about silence; `crash` asks how long an epoch has
lasted. The database's and the machine's wall clocks have no say: one that is set forward would end every
epoch, one set back none. In memory, since after a restart of control every epoch begins anew anyway.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import structlog

from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_control.sessions.record import RUNNING, SessionRow

log = structlog.get_logger("choir.sessions")


@dataclass(slots=True)
class _Life:
    epoch: int
    status: str
    since: float
    """When this epoch was first noticed."""
    heard: float
    """When it last gave a sign of life: a heartbeat, or another status."""
    suspect: bool = False
    unanswered: int = 0
    """Its signs of life that arrived and are being worked on."""


class Vitals:
    """The signs of life of all running sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lives: dict[str, _Life] = {}

    def beat(self, session_id: str, epoch: int) -> None:
        """Note a sign of life of an epoch that may write."""
        life = self._lives.get(session_id)
        if life is None or life.epoch != epoch:
            return  # the next round notices it
        life.heard = self._clock.monotonic()
        if life.suspect:
            life.suspect = False
            log.info("agent is heard again", session=session_id, epoch=epoch)

    @contextlib.contextmanager
    def answering(self, session_id: str, epoch: int) -> Iterator[None]:
        """Count an epoch as alive while what it sent is answered, and when a part of ours fails.

        An agent has one heartbeat under way: while Postgres keeps us from answering it, no other can come.
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

    def attend(self, sessions: Iterable[SessionRow]) -> None:
        """Take note of the sessions that run now; all others are forgotten."""
        now, lives = self._clock.monotonic(), dict[str, _Life]()
        for session in sessions:
            if session.status not in RUNNING:
                continue
            life = self._lives.get(session.session_id)
            if life is None or life.epoch != session.epoch:
                life = _Life(session.epoch, session.status, now, now)
            elif life.status != session.status:
                life.status, life.heard = session.status, now
            lives[session.session_id] = life
        self._lives = lives

    def excuse_all(self) -> None:
        """Begin every silence anew: nobody could be heard for a while, and that was our fault."""
        now = self._clock.monotonic()
        for life in self._lives.values():
            life.heard, life.suspect = now, False

    def silence_s(self, session: SessionRow) -> float:
        """Return for how long a session has given no sign of life."""
        life = self._lives.get(session.session_id)
        if life is None or life.epoch != session.epoch or life.unanswered:
            return 0.0
        return self._clock.monotonic() - life.heard

    def lived_s(self, session: SessionRow) -> float:
        """Return for how long the session's epoch has been running."""
        life = self._lives.get(session.session_id)
        if life is None or life.epoch != session.epoch:
            return 0.0
        return self._clock.monotonic() - life.since

    def suspect(self, session: SessionRow) -> None:
        """Note that a session has been silent for longer than it should."""
        life = self._lives.get(session.session_id)
        if life is not None and not life.suspect:
            life.suspect = True
            log.warning("agent is suspect", agent=session.agent_id, session=session.session_id)

    def is_suspect(self, session_id: str) -> bool:
        """Tell whether a session has been silent for longer than it should, and is not given up yet."""
        life = self._lives.get(session_id)
        return life is not None and life.suspect
