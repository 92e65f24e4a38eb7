"""What people read: ages, events on a line, errors as a paragraph."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.errors import Conflict, NotFound
from choir_common.wire.events import GENESIS, Event
from choirctl.failures import explain
from choirctl.printing import ago
from choirctl.views import event_line

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (59, "59s"), (61, "1m"), (7_300, "2h"), (200_000, "2d")]
)
def test_an_age_is_said_in_its_largest_unit(seconds: int, said: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_an_event_is_one_line_whatever_it_holds() -> None:
    event = Event(
        session_id="s",
        rev=7,
        lane="edge",
        type="reply",
        payload={"text": "a\nb [red]c " * 50, "answers": None},
        at="2026-11-21T05:00:00.123456Z",
        hash_prev=GENESIS,
        hash="h",
    )
    line = event_line(event)
    assert "\n" not in line
    assert line.startswith("    7 05:00:00.123 edge")
    assert "…" in line
    assert "answers" not in line


def test_an_error_in_a_group_keeps_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("many", [NotFound("There is no agent nobody."), Conflict()])
    assert explain(group) == 3
    assert capsys.readouterr().err == "Error: There is no agent nobody.\n"


def test_a_file_that_may_not_be_read_is_denied(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(PermissionError(13, "Permission denied", "/etc/shadow")) == 4
    assert "/etc/shadow" in capsys.readouterr().err
