"""What one session may ask is bounded, per class of verbs; heartbeats wait for nothing else."""

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import RateLimited
from choir_common.wire.rpc import VERBS
from choir_control.api.rpc.rate_limits import (
    BYTE_LIMIT,
    HEARTBEAT_LIMIT,
    SESSIONS,
    STREAM_LIMIT,
    TOOL_LIMIT,
    VERB_LIMITS,
    SessionRateLimiter,
)


class SteppedClock(SystemClock):
    """A monotonic clock that a test moves."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


def spend(limits: SessionRateLimiter, session: str, allowance: object, times: int) -> int:
    done = 0
    for _ in range(times):
        try:
            with limits.admitted(session, allowance):  # type: ignore[arg-type]
                done += 1
        except RateLimited:
            pass
    return done


def test_every_verb_has_a_class() -> None:
    assert {*VERB_LIMITS} == {*VERBS}


def test_a_burst_is_allowed_then_the_rate_and_the_error_says_how_long_to_wait() -> None:
    clock = SteppedClock()
    limits = SessionRateLimiter(clock)
    assert spend(limits, "a", TOOL_LIMIT, 1_000) == TOOL_LIMIT.burst
    with pytest.raises(RateLimited) as refused:
        with limits.admitted("a", TOOL_LIMIT):
            pass
    assert refused.value.retry_after_s == pytest.approx(1 / TOOL_LIMIT.per_s)
    clock.at += 0.5
    assert spend(limits, "a", TOOL_LIMIT, 1_000) == TOOL_LIMIT.per_s / 2
    clock.at += 1_000_000
    assert spend(limits, "a", TOOL_LIMIT, 1_000) == TOOL_LIMIT.burst


def test_tool_calls_never_starve_heartbeats_nor_another_session() -> None:
    limits = SessionRateLimiter(SteppedClock())
    spend(limits, "a", TOOL_LIMIT, 10_000)
    spend(limits, "a", STREAM_LIMIT, 10_000)
    assert spend(limits, "a", HEARTBEAT_LIMIT, 100) == 100
    assert spend(limits, "b", TOOL_LIMIT, 100) == 100


def test_what_runs_at_once_is_bounded_and_given_back() -> None:
    limits = SessionRateLimiter(SteppedClock())
    running = [limits.admitted("a", TOOL_LIMIT) for _ in range(TOOL_LIMIT.at_once)]
    for one in running:
        one.__enter__()
    with pytest.raises(RateLimited, match="running"):
        with limits.admitted("a", TOOL_LIMIT):
            pass
    with limits.admitted("a", HEARTBEAT_LIMIT):
        pass
    running[0].__exit__(None, None, None)
    with limits.admitted("a", TOOL_LIMIT):
        pass


def test_bodies_are_weighed_together() -> None:
    clock = SteppedClock()
    limits = SessionRateLimiter(clock)
    for _ in range(int(BYTE_LIMIT.burst // 4_000_000)):
        limits.weigh("a", 4_000_000)
    with pytest.raises(RateLimited) as refused:
        limits.weigh("a", 4_000_000)
    clock.at += refused.value.retry_after_s or 0
    limits.weigh("a", 4_000_000)


def test_a_clock_that_went_back_gives_nothing() -> None:
    clock = SteppedClock()
    limits = SessionRateLimiter(clock)
    spend(limits, "a", TOOL_LIMIT, 1_000)
    clock.at -= 50
    assert spend(limits, "a", TOOL_LIMIT, 10) == 0


def test_the_memory_of_sessions_is_bounded() -> None:
    limits = SessionRateLimiter(SteppedClock())
    for number in range(SESSIONS * 2):
        spend(limits, f"s{number}", HEARTBEAT_LIMIT, 1)
    assert len(limits._sessions) == SESSIONS
