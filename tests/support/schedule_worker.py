"""A process that runs schedules over a real database, with a fast clock, until it is killed."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.synchronize import Event

from choir_common.clock import SystemClock
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import ENGLISH
from choir_common.postgres.pool import Database
from choir_control.conversations.schedules.run_store import RunStore
from choir_control.conversations.schedules.runner import ScheduleRunner
from choir_control.conversations.schedules.starter import RunStarter
from choir_control.conversations.schedules.wake_up_rules import WakeUpRules, WakeUpStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

# Stands in for the gateway and the agent: all is delivered and answered at once.
DELIVER = "UPDATE choir_control.outbox SET status = 'delivered' WHERE status = 'waiting'"
ANSWER = "UPDATE choir_control.inbox SET answered_rev = 1 WHERE answered_rev IS NULL"


@dataclass
class FastClock(SystemClock):
    """A wall clock that runs `factor` times as fast from `start`, while it is not held; `offset` sets it."""

    start: datetime
    factor: float
    offset: timedelta = timedelta(0)
    resumed_at: float | None = None
    """None while it is held."""

    def now(self) -> datetime:
        seconds = 0.0 if self.resumed_at is None else time.time() - self.resumed_at
        return self.start + timedelta(seconds=seconds * self.factor) + self.offset

    def resume(self) -> None:
        """Let the time go on."""
        self.resumed_at = time.time()

    def hold(self) -> None:
        """Let the time stand still."""
        self.start, self.offset, self.resumed_at = self.now(), timedelta(0), None


class OneConversation:
    """A configuration in which each conversation is on the console."""

    @property
    def current(self) -> "OneConversation":
        return self

    @property
    def people(self) -> "OneConversation":
        return self

    def gateway_of(self, dm: str) -> str:
        return "console"

    def language_in(self, dm: str) -> str:
        return ENGLISH


class NoDelivery:
    """Stands in for the outbox worker; see `DELIVER`."""

    def rescan(self, dm: str) -> None:
        pass


def make_runner(database: Database, clock: FastClock) -> ScheduleRunner:
    """Return the worker over a database."""
    runs = RunStore(database)
    starter = RunStarter(
        runs,
        configuration=OneConversation(),  # type: ignore[arg-type]
        outbox=NoDelivery(),
        notifier=Notifier(),
        signal_locks=SignalLocks(),
        wake_ups=WakeUpRules(WakeUpStore(database), OneConversation()),  # type: ignore[arg-type]
    )
    return ScheduleRunner(runs, starter=starter, clock=clock)


async def work(dsn: str, password: str, clock: FastClock, begun: Event) -> None:
    """Run schedules without limit; set `begun` when the database is open."""
    async with Database(dsn, password, size=2, application="schedule-worker") as database:
        runner = make_runner(database, clock)
        clock.resume()
        begun.set()
        while True:
            try:
                await runner.tick()
                await database.execute(DELIVER)
                await database.execute(ANSWER)
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.02)


async def finish(database: Database, clock: FastClock) -> None:
    """Run what is due at a time that stands still, until nothing is open."""
    clock.hold()
    runner = make_runner(database, clock)
    for _ in range(5):
        await runner.tick()
        await database.execute(DELIVER)
        await database.execute(ANSWER)


def run_worker(dsn: str, password: str, clock: FastClock, begun: Event) -> None:
    """Run until killed: the main function of a child process."""
    asyncio.run(work(dsn, password, clock, begun))
