"""A clock that is set while a core job works ends nothing and lengthens nothing (GUARANTEES R9)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from choir_agent.lanes.core_job import CoreJobRunner
from choir_agent.log.session_state import SessionState
from choir_agent.tools.registry import ToolRegistry
from choir_common.clock import SteadyClock
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreStarted, CoreStopped, EventPayload, ModelOutput
from tests.support.agent_fakes import SilentStatus, settings_with, silent_log

ALLOWED_S = 3_600  # by default


@dataclass
class SetClock:
    """A clock that the test sets, and whose seconds it lets pass."""

    wall: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.seconds += seconds


@dataclass
class Worked:
    """A job that answers at its second step; each thought lasts a while, and the clock is set in it."""

    clock: SetClock
    jump: timedelta
    lasts_s: float
    ended: list[CoreStopped] = field(default_factory=list)
    thoughts: int = 0

    def __post_init__(self) -> None:
        self.log = silent_log("ses", self.clock)
        started = CoreStarted(job_id="j", job_name="worker", call_id="c", dm="d", task_spec="work")
        self.log.append("edge", started)

    @property
    def state(self) -> SessionState:
        return self.log.state

    def commit(self, lane: str, payload: EventPayload) -> None:
        self.log.append(lane, payload)
        if isinstance(payload, CoreStopped):
            self.ended.append(payload)

    def close_open_calls(self, *_: str) -> None:
        return

    def leave(self, *_: str) -> None:
        return

    def begin(self, job: object) -> str:
        return ""

    def settle(self, *_: str) -> bool:
        return False

    async def think(self, job: object) -> None:
        self.thoughts += 1
        self.clock.wall += self.jump
        self.clock.pass_by(self.lasts_s)
        text, read = "done" if self.thoughts == 2 else " ", self.log.head.rev
        output = ModelOutput(
            turn_id="j", text=text, tool_calls=(), model="m", finish_reason="stop", read_rev=read
        )
        self.log.append("core:worker", output)

    async def outcome(self) -> str:
        (job,) = self.state.jobs
        runner = CoreJobRunner(
            job,
            arbiter=self,  # type: ignore[arg-type]
            model=self,  # type: ignore[arg-type]
            harness=None,
            skills=self,  # type: ignore[arg-type]
            tools=ToolRegistry([]),
            settings=settings_with(Budgets()),
            clock=self.clock,
            status=SilentStatus(),
        )
        await runner.run()
        (ended,) = self.ended
        return ended.outcome


@pytest.mark.parametrize("days", [-400, -1, 1, 400])
async def test_a_clock_that_is_set_ends_no_job(days: int) -> None:
    worked = Worked(SetClock(), timedelta(days=days), lasts_s=60)
    assert await worked.outcome() == "completed"


@pytest.mark.parametrize("days", [-1, 0])
async def test_a_job_whose_time_is_over_ends_whatever_the_clock_says(days: int) -> None:
    worked = Worked(SetClock(), timedelta(days=days), lasts_s=ALLOWED_S + 1)
    assert await worked.outcome() == "budget_exceeded"


def test_steady_time_goes_on_as_seconds_pass() -> None:
    clock = SetClock()
    steady = SteadyClock(clock)
    clock.wall += timedelta(days=3)
    clock.pass_by(5)
    assert steady.now() == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
