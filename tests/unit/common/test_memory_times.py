"""Times that people and models write in requests to memory."""

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from choir_common.wire.memory_search import Since, Until
from choir_common.wire.validation_messages import error_messages

SINCE: TypeAdapter[datetime] = TypeAdapter(Since)
UNTIL: TypeAdapter[datetime] = TypeAdapter(Until)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026-05-31", "2026-05-31T00:00", "2026-06-01T00:00"),
        (" 2026-05-31 ", "2026-05-31T00:00", "2026-06-01T00:00"),
        ("2026-05-31T14:00", "2026-05-31T14:00", "2026-05-31T14:00"),
        ("2026-05-31T14:00+02:00", "2026-05-31T12:00", "2026-05-31T12:00"),
        # people write it for an end that never comes; it has no next day
        ("9999-12-31", "9999-12-31T00:00", "9999-12-31T00:00"),
    ],
)
def test_a_date_is_a_day_in_utc_and_an_end_includes_it(text: str, since: str, until: str) -> None:
    for adapter, expected in ((SINCE, since), (UNTIL, until)):
        moment = datetime.fromisoformat(expected).replace(tzinfo=UTC)
        assert adapter.validate_python(text) == moment


@pytest.mark.parametrize("text", ["tomorrow", "2024-02-30", "2024-13-01", "", "1700000000"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    for adapter in (SINCE, UNTIL):
        with pytest.raises(ValidationError) as refused:
            adapter.validate_python(text)
        (message,) = error_messages(refused.value, "since")
        assert "write a date such as 2026-05-31" in message
