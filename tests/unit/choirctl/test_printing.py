"""What people read: ages, events on a line, errors as a paragraph."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.text import Text

from choir_common.errors import Conflict, NotFound
from choir_common.wire.events import GENESIS, Event
from choir_common.wire.operator import AgentView
from choir_common.wire.rpc import StatusReport
from choirctl.output.failures import report_error
from choirctl.output.printing import format_age, print_rows, stderr_console, stdout_console, table
from choirctl.output.views import agent_facts, event_line

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (59, "59s"), (61, "1m"), (7_300, "2h"), (200_000, "2d")]
)
def test_an_age_is_said_in_its_largest_unit(seconds: int, said: str) -> None:
    assert format_age(NOW - timedelta(seconds=seconds), NOW) == said


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
    plain = Text.from_markup(line).plain
    assert plain.startswith("    7 05:00:00.123 edge         reply                a b [red]c a b")
    assert "answers" not in plain
    assert "…" in line
    assert "answers" not in line


def test_an_event_shows_every_host_that_a_call_contacted() -> None:
    connections = [
        {"host": "a.example", "port": 443, "decision": "allowed", "connections": 3, "bytes_up": 7},
        {"host": "b.example", "port": 22, "decision": "new_host"},
        {"odd": 1},
    ]
    event = Event(
        session_id="s", rev=8, lane="edge", type="tool_result_committed",
        payload={"tool": "choir.exec", "connections": connections},
        at="2026-11-21T05:00:00.123456Z", hash_prev=GENESIS, hash="h",
    )  # fmt: skip
    line = Text.from_markup(event_line(event)).plain
    assert "→a.example:443 allowed x3 7 B up, 0 B down;" in line
    assert "→b.example:22 new_host 0 B up, 0 B down;" in line
    assert "odd" not in line


def test_an_agent_is_shown_with_its_jobs_and_what_its_budgets_leave() -> None:
    view = AgentView(
        agent_id="main",
        state="running",
        session_id="ses_1",
        epoch=1,
        bindings=None,
        model="m",
        pid=None,
        started_at=None,
        last_heartbeat_at=None,
        lanes=(
            StatusReport(
                lane="edge", state="EDGE_IDLE", budget_remaining={"total_session_tokens": 12_345}
            ),
            StatusReport(
                lane="core:read", state="CORE_REASONING", skill="digest", step="[collect]"
            ),
        ),
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(agent_facts(view, "version 3, applied"))
    shown = [line.strip() for line in console.export_text().splitlines()]
    assert any(line.startswith("lane edge") and "idle" in line for line in shown)
    assert any("budget left" in line and "12,345 tokens" in line for line in shown)
    assert any(
        line.startswith("job read") and "thinking, skill digest, step [collect]" in line
        for line in shown
    )
    assert any(line.startswith("settings") and "version 3, applied" in line for line in shown)


def test_an_empty_table_says_so_and_puts_nothing_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(table("AGENT"), "No agent is configured.")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "No agent is configured.\n")


def test_no_line_of_a_table_in_a_pipe_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = table("AGENT", "STATE")
    rows.add_row("main", "running")
    rows.add_row("researcher", "-")
    print_rows(rows)
    assert capsys.readouterr().out == "AGENT       STATE\nmain        running\nresearcher  -\n"


def test_an_error_in_a_group_keeps_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("many", [NotFound("There is no agent nobody."), Conflict()])
    assert report_error(group) == 3
    assert capsys.readouterr().err == "Error: There is no agent nobody.\n"


def test_a_file_that_may_not_be_read_is_denied(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(PermissionError(13, "Permission denied", "/etc/shadow")) == 4
    assert "/etc/shadow" in capsys.readouterr().err


def test_what_looks_like_the_name_of_a_picture_stays_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = table("a", "b")
    rows.add_row("24:E9:CD:25", ":smile: [bold]x[/]")
    print_rows(rows)
    stdout_console().print("24:E9:CD:25", markup=False)
    stderr_console().print(":smile:")
    shown = capsys.readouterr()
    assert shown.out.split() == ["a", "b", "24:E9:CD:25", ":smile:", "x", "24:E9:CD:25"]
    assert shown.err == ":smile:\n"
