"""A period to forget never lasts into the future: what is said afterwards must be remembered."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_forget import ForgetSelection
from choir_control.agents.sessions.forgetting import FIRST_TIME, limit_to_past

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_period_that_ends_later_lasts_until_now() -> None:
    selection = ForgetSelection(since=NOW - HOUR, until=NOW + HOUR)
    assert limit_to_past(selection, NOW) == ForgetSelection(since=NOW - HOUR)


def test_a_period_without_a_start_that_ends_later_is_everything_until_now() -> None:
    selection = ForgetSelection(until=NOW + HOUR)
    assert limit_to_past(selection, NOW) == ForgetSelection(since=FIRST_TIME)


def test_a_period_of_the_past_stays_as_it_is() -> None:
    selection = ForgetSelection(since=NOW - 2 * HOUR, until=NOW - HOUR)
    assert limit_to_past(selection, NOW) is selection


def test_a_period_that_begins_in_the_future_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="2026-03-01 13:00 UTC is in the future"):
        limit_to_past(ForgetSelection(since=NOW + HOUR), NOW)
