"""What one session may ask is bounded, per class of verbs; heartbeats wait for nothing else."""

import pytest

from choir_common.errors import RateLimited
from choir_common.wire.rpc import VERBS
from choir_control.rpc.limits import (
    BYTES,
    CLASSES,
    SESSIONS,
    STREAMS,
    TOOLS,
    VITAL,
    Limits,
)


class Hand:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def spend(limits: Limits, session: str, allowance: object, times: int) -> int:
    done = 0
    for _ in range(times):
        try:
            with limits.admitted(session, allowance):  # type: ignore[arg-type]
                done += 1
        except RateLimited:
            pass
    return done


def test_every_verb_has_a_class() -> None:
    assert {*CLASSES} == {*VERBS}


def test_a_burst_is_allowed_then_the_rate_and_the_error_says_how_long_to_wait() -> None:
    clock = Hand()
    limits = Limits(clock)
    assert spend(limits, "a", TOOLS, 1_000) == TOOLS.burst
    with pytest.raises(RateLimited) as refused:
        with limits.admitted("a", TOOLS):
            pass
    assert refused.value.retry_after_s == pytest.approx(1 / TOOLS.per_s)
    clock.now += 0.5
    assert spend(limits, "a", TOOLS, 1_000) == TOOLS.per_s / 2
    clock.now += 1_000_000
    assert spend(limits, "a", TOOLS, 1_000) == TOOLS.burst


def test_tool_calls_never_starve_heartbeats_nor_another_session() -> None:
    limits = Limits(Hand())
    spend(limits, "a", TOOLS, 10_000)
    spend(limits, "a", STREAMS, 10_000)
    assert spend(limits, "a", VITAL, 100) == 100
    assert spend(limits, "b", TOOLS, 100) == 100


def test_what_runs_at_once_is_bounded_and_given_back() -> None:
    limits = Limits(Hand())
    running = [limits.admitted("a", TOOLS) for _ in range(TOOLS.at_once)]
    for one in running:
        one.__enter__()
    with pytest.raises(RateLimited, match="running"):
        with limits.admitted("a", TOOLS):
            pass
    with limits.admitted("a", VITAL):
        pass
    running[0].__exit__(None, None, None)
    with limits.admitted("a", TOOLS):
        pass


def test_bodies_are_weighed_together() -> None:
    clock = Hand()
    limits = Limits(clock)
    for _ in range(int(BYTES.burst // 4_000_000)):
        limits.weigh("a", 4_000_000)
    with pytest.raises(RateLimited) as refused:
        limits.weigh("a", 4_000_000)
    clock.now += refused.value.retry_after_s or 0
    limits.weigh("a", 4_000_000)


def test_a_clock_that_went_back_gives_nothing() -> None:
    clock = Hand()
    limits = Limits(clock)
    spend(limits, "a", TOOLS, 1_000)
    clock.now -= 50
    assert spend(limits, "a", TOOLS, 10) == 0


def test_the_memory_of_sessions_is_bounded() -> None:
    limits = Limits(Hand())
    for number in range(SESSIONS * 2):
        spend(limits, f"s{number}", VITAL, 1)
    assert len(limits._sessions) == SESSIONS
