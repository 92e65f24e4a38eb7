"""Time zones have IANA names, and a message says when it was sent in its user's zone."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter, ValidationError

from choir_common.wire.config_parts import TimeZone
from choir_common.wire.prompt_marks import LATE_AFTER_S, SENT_LINE, format_sent_line

WINTER = datetime(2026, 11, 22, 7, 3, 59, tzinfo=UTC)
SUMMER = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
ZONE: TypeAdapter[str] = TypeAdapter(TimeZone)


@pytest.mark.parametrize(
    ("sent", "zone", "line"),
    [
        (WINTER, "UTC", "Sun 2026-11-22 07:03 UTC"),
        (WINTER, "Europe/Berlin", "Sun 2026-11-22 08:03 Europe/Berlin"),
        (SUMMER, "Europe/Berlin", "Thu 2026-07-02 00:30 Europe/Berlin"),
        (WINTER, "America/Argentina/Buenos_Aires", "Sun 2026-11-22 04:03 America/Argentina/Buenos_Aires"),
        (WINTER, "Etc/GMT+5", "Sun 2026-11-22 02:03 Etc/GMT+5"),
    ],
)  # fmt: skip
def test_a_message_says_day_date_time_and_zone(sent: datetime, zone: str, line: str) -> None:
    assert format_sent_line(sent, sent, zone) == line
    assert SENT_LINE.sub("", f"[{line}]\nhello") == "hello"


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        ("2026-03-29T00:59", "Sun 2026-03-29 01:59 Europe/Berlin"),
        ("2026-03-29T01:00", "Sun 2026-03-29 03:00 Europe/Berlin"),
        ("2026-10-24T23:59", "Sun 2026-10-25 01:59 Europe/Berlin"),
        ("2026-10-25T00:30", "Sun 2026-10-25 02:30+02:00 Europe/Berlin"),
        ("2026-10-25T01:30", "Sun 2026-10-25 02:30+01:00 Europe/Berlin"),
        ("2026-10-25T02:00", "Sun 2026-10-25 03:00 Europe/Berlin"),
    ],
)
def test_the_hour_that_clocks_repeat_has_its_offset(sent: str, line: str) -> None:
    moment = datetime.fromisoformat(f"{sent}+00:00")
    assert format_sent_line(moment, moment, "Europe/Berlin") == line
    assert SENT_LINE.sub("", f"[{line}]\nhello") == "hello"


def test_a_pause_over_a_change_of_clocks_has_its_real_length() -> None:
    before, after = datetime(2026, 3, 28, 22, tzinfo=UTC), datetime(2026, 3, 29, 6, tzinfo=UTC)
    line = format_sent_line(after, after, "Europe/Berlin", previous=before)
    assert line == "Sun 2026-03-29 08:00 Europe/Berlin, 8 hours after the last message"


def test_a_message_that_waited_says_when_it_was_read() -> None:
    read = WINTER + timedelta(seconds=LATE_AFTER_S + 60)
    line = format_sent_line(WINTER, read, "Europe/Berlin")
    assert line == "Sun 2026-11-22 08:03 Europe/Berlin, read Sun 2026-11-22 08:14"
    assert SENT_LINE.sub("", f"[{line}]\nhello") == "hello"


@pytest.mark.parametrize(
    ("pause", "said"),
    [
        (timedelta(minutes=10), ""),
        (timedelta(minutes=25, seconds=59), "25 minutes"),
        (timedelta(hours=1, minutes=59), "119 minutes"),
        (timedelta(hours=3, minutes=50), "3 hours"),
        (timedelta(days=1, hours=23), "47 hours"),
        (timedelta(days=12, hours=5), "12 days"),
        (timedelta(minutes=-30), ""),
    ],
)
def test_a_message_after_a_pause_says_how_long_it_was(pause: timedelta, said: str) -> None:
    line = format_sent_line(WINTER, WINTER, "Europe/Berlin", previous=WINTER - pause)
    added = f", {said} after the last message" if said else ""
    assert line == f"Sun 2026-11-22 08:03 Europe/Berlin{added}"
    assert SENT_LINE.sub("", f"[{line}]\nhello") == "hello"


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "Asia/Kolkata"])
def test_a_zone_that_exists_is_taken(name: str) -> None:
    assert ZONE.validate_python(name) == name


@pytest.mark.parametrize("name", ["Berlin", "", "Europe", "+01:00", "../../etc/passwd", "a\0b"])
def test_what_is_no_zone_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValidationError, match="unknown time zone .* such as Europe/Berlin"):
        ZONE.validate_python(name)
