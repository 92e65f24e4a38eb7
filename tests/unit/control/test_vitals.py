"""Silence is measured by a clock that only grows, and is an agent's only while it could be heard."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from choir_common.eventlog.chain import LogHead
from choir_common.wire.operator import SessionStatus
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.record import SessionRow

BOUND = ResourceBindings(workspace="w", llm="m", dm="d")
ROW = SessionRow(
    session_id="ses_1",
    agent_id="main",
    status="active",
    epoch=1,
    head=LogHead(),
    continues=None,
    bindings=BOUND,
    initial_bindings=BOUND,
    settings_rev=0,
    gateway="g",
    crashes=0,
    idle_crashes=0,
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    ended_at=None,
    end_reason=None,
    last_heartbeat_at=datetime(2026, 1, 1, tzinfo=UTC),
    image=None,
)


class JumpingClock:
    """A clock whose wall time the test may move by years; its seconds only grow."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def vitals(clock: JumpingClock) -> LivenessTracker:
    """Vitals that have just noticed one session."""
    made = LivenessTracker(clock)
    made.track([ROW])
    return made


@pytest.mark.parametrize("year", [1970, 2100])
def test_no_jump_of_a_wall_clock_is_silence(
    vitals: LivenessTracker, clock: JumpingClock, year: int
) -> None:
    clock.seconds += 4
    clock.wall = datetime(year, 1, 1, tzinfo=UTC)
    long_ago = replace(ROW, last_heartbeat_at=datetime(1971, 1, 1, tzinfo=UTC))
    vitals.track([long_ago])
    assert vitals.silence_s(long_ago) == 4
    vitals.beat("ses_1", 1)
    assert vitals.silence_s(long_ago) == 0


def test_an_old_epoch_is_not_heard(vitals: LivenessTracker, clock: JumpingClock) -> None:
    clock.seconds += 5
    vitals.beat("ses_1", 0)
    assert vitals.silence_s(ROW) == 5
    second = replace(ROW, epoch=2)
    vitals.track([second])
    clock.seconds += 3
    vitals.beat("ses_1", 1)
    assert vitals.silence_s(second) == 3 and vitals.epoch_age_s(second) == 3
    assert vitals.silence_s(ROW) == 0


def test_who_is_suspect_is_cleared_by_one_heartbeat(
    vitals: LivenessTracker, clock: JumpingClock
) -> None:
    clock.seconds += 8
    vitals.suspect(ROW)
    assert vitals.is_suspect("ses_1")
    vitals.beat("ses_1", 1)
    assert not vitals.is_suspect("ses_1") and not vitals.is_suspect("ses_2")


def test_silence_that_was_our_fault_is_excused(
    vitals: LivenessTracker, clock: JumpingClock
) -> None:
    clock.seconds += 100
    vitals.suspect(ROW)
    vitals.reset_all()
    assert vitals.silence_s(ROW) == 0 and not vitals.is_suspect("ses_1")
    assert vitals.epoch_age_s(ROW) == 100


@pytest.mark.parametrize("status", ["stopped", "crashed", "abandoned"])
def test_a_session_that_does_not_run_is_forgotten(
    vitals: LivenessTracker, clock: JumpingClock, status: SessionStatus
) -> None:
    clock.seconds += 9
    vitals.track([replace(ROW, status=status)])
    assert vitals.silence_s(ROW) == 0


def test_another_status_is_a_sign_of_life(vitals: LivenessTracker, clock: JumpingClock) -> None:
    clock.seconds += 9
    stopping = replace(ROW, status="stopping")
    vitals.track([stopping])
    assert vitals.silence_s(stopping) == 0 and vitals.epoch_age_s(stopping) == 9
