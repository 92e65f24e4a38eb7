"""Quiet hours, and what a wake-up tells the agent."""

from datetime import time

import pytest

from choir_control.conversations.schedules.wake_up_rules import (
    OpenWork,
    describe_open_work,
    is_quiet,
)


@pytest.mark.parametrize(
    ("quiet_hours", "quiet", "not_quiet"),
    [
        ("22:00-07:30", ("22:00", "23:59", "00:00", "07:29"), ("07:30", "12:00", "21:59")),
        ("12:00-13:00", ("12:00", "12:59"), ("11:59", "13:00", "00:00")),
        ("00:00-06:00", ("00:00", "05:59"), ("06:00", "23:59")),
    ],
)
def test_quiet_hours_begin_at_their_start_and_end_before_their_end(
    quiet_hours: str, quiet: tuple[str, ...], not_quiet: tuple[str, ...]
) -> None:
    assert all(is_quiet(quiet_hours, time.fromisoformat(at)) for at in quiet)
    assert not any(is_quiet(quiet_hours, time.fromisoformat(at)) for at in not_quiet)


def test_open_work_is_named_and_nothing_is_said_about_none() -> None:
    text = describe_open_work(OpenWork(("tea", "mail"), 2))
    assert text == "Open core jobs: tea, mail.\nCalls that wait for the user's decision: 2."
    assert describe_open_work(OpenWork((), 0)) == ""
