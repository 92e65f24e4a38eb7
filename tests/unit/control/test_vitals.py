"""Silence is measured by a clock that only grows, and is an agent's only while it could be heard."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from choir_common.eventlog.chain import Head
from choir_common.wire.operator import SessionStatus
from choir_common.wire.rpc import ResourceBindings
from choir_control.sessions.record import SessionRow
from choir_control.sessions.vitals import Vitals

BOUND = ResourceBindings(workspace="w", llm="m", dm="d")
ROW = SessionRow(
    session_id="ses_1",
    agent_id="main",
    status="active",
    epoch=1,
    head=Head(),
    continues=None,
    bindings=BOUND,
    started_with=BOUND,
    settings_rev=0,
    gateway="g",
    resumes=0,
    idle_resumes=0,
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
def vitals(clock: JumpingClock) -> Vitals:
    """Vitals that have just noticed one session."""
    made = Vitals(clock)
    made.attend([ROW])
    return made


@pytest.mark.parametrize("year", [1970, 2100])
def test_no_jump_of_a_wall_clock_is_silence(vitals: Vitals, clock: JumpingClock, year: int) -> None:
    clock.seconds += 4
    clock.wall = datetime(year, 1, 1, tzinfo=UTC)
    long_ago = replace(ROW, last_heartbeat_at=datetime(1971, 1, 1, tzinfo=UTC))
    vitals.attend([long_ago])
    assert vitals.silence_s(long_ago) == 4
    vitals.beat("ses_1", 1)
    assert vitals.silence_s(long_ago) == 0


def test_an_old_epoch_is_not_heard(vitals: Vitals, clock: JumpingClock) -> None:
    clock.seconds += 5
    vitals.beat("ses_1", 0)
    assert vitals.silence_s(ROW) == 5
    second = replace(ROW, epoch=2)
    vitals.attend([second])
    clock.seconds += 3
    vitals.beat("ses_1", 1)
    assert vitals.silence_s(second) == 3 and vitals.lived_s(second) == 3
    assert vitals.silence_s(ROW) == 0


def test_who_is_suspect_is_cleared_by_one_heartbeat(vitals: Vitals, clock: JumpingClock) -> None:
    clock.seconds += 8
    vitals.suspect(ROW)
    assert vitals.is_suspect("ses_1")
    vitals.beat("ses_1", 1)
    assert not vitals.is_suspect("ses_1") and not vitals.is_suspect("ses_2")


def test_silence_that_was_our_fault_is_excused(vitals: Vitals, clock: JumpingClock) -> None:
    clock.seconds += 100
    vitals.suspect(ROW)
    vitals.excuse_all()
    assert vitals.silence_s(ROW) == 0 and not vitals.is_suspect("ses_1")
    assert vitals.lived_s(ROW) == 100


@pytest.mark.parametrize("status", ["stopped", "crashed", "abandoned"])
def test_a_session_that_does_not_run_is_forgotten(
    vitals: Vitals, clock: JumpingClock, status: SessionStatus
) -> None:
    clock.seconds += 9
    vitals.attend([replace(ROW, status=status)])
    assert vitals.silence_s(ROW) == 0


def test_another_status_is_a_sign_of_life(vitals: Vitals, clock: JumpingClock) -> None:
    clock.seconds += 9
    stopping = replace(ROW, status="stopping")
    vitals.attend([stopping])
    assert vitals.silence_s(stopping) == 0 and vitals.lived_s(stopping) == 9
