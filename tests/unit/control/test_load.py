"""The admission of messages under load, by a clock of the test."""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from choir_common.errors import Unavailable
from choir_control.api.operator.load_limiter import ALWAYS_ADMITTED, MAX_WAIT_S, LoadLimiter


@dataclass
class HandClock:
    """A clock that the test sets."""

    at: float = 1_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at


def test_a_burst_after_a_quiet_time_is_let_in() -> None:
    limiter = LoadLimiter(HandClock())
    with contextlib.ExitStack() as running:
        for _ in range(20 * ALWAYS_ADMITTED):
            running.enter_context(limiter.admit())


def test_what_would_wait_too_long_at_the_present_pace_is_refused_with_the_time_to_wait() -> None:
    clock = HandClock()
    limiter = LoadLimiter(clock)
    for _ in range(40):  # four a second
        with limiter.admit() as turn:
            clock.at += 0.25
            turn.accepted = True
    with contextlib.ExitStack() as running:
        with pytest.raises(Unavailable, match="same idempotency key") as refused:
            for _ in range(1_000):
                running.enter_context(limiter.admit())
        taken = limiter.expected_wait_s(clock.at)
        assert MAX_WAIT_S < taken < 2 * ALWAYS_ADMITTED / 4
        assert refused.value.retry_after_s
    with limiter.admit():
        pass


def test_messages_that_failed_do_not_count_as_accepted() -> None:
    clock = HandClock()
    limiter = LoadLimiter(clock)
    with contextlib.ExitStack() as running:
        for _ in range(ALWAYS_ADMITTED):
            running.enter_context(limiter.admit())
        clock.at += MAX_WAIT_S + 1
        with pytest.raises(Unavailable), limiter.admit():
            pass
