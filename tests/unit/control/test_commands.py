"""A message is read as a command only when it surely is one."""

import pytest

from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.inbox.commands import Command, Verb, all_commands, help_text, read_command
from choir_control.inbox.words import lanes_text, what_happens


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/inject in French", Command("/inject", Verb.INJECT, "in French")),
        ("/inject  two\nlines ", Command("/inject", Verb.INJECT, "two\nlines")),
        ("/inject", Command("/inject", Verb.INJECT)),
        ("/Cancel read-a\n", Command("/cancel", Verb.CANCEL, "read-a")),
        ("/compact@my_bot", Command("/compact", Verb.COMPACT)),
        ("/jobs", Command("/jobs", Verb.JOBS)),
        ("/help", Command("/help", Verb.HELP)),
        ("/start", Command("/start", Verb.HELP)),
        ("/frobnicate now", Command("/frobnicate", None, "now")),
    ],
)
def test_a_command_is_read_with_what_follows_it(text: str, command: Command) -> None:
    assert read_command(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "/continue",
        "/CONTINUE",
        '/tool choir.fs.read {"path": "a"}',
        " /inject as it is",
        "/etc/hosts: what is in it?",
        "/",
        "//comment",
        "/123",
        "say /inject",
        "/" + "a" * 33,
        "/jobs?",
    ],
)
def test_everything_else_goes_to_the_agent(text: str) -> None:
    assert read_command(text) is None


def test_help_names_every_command_once() -> None:
    lines = help_text().splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [view.name for view in all_commands()]
    assert "/continue" in {view.name for view in all_commands()}


def test_what_happens_is_said_in_words() -> None:
    assert "next step" in what_happens(InjectSignal(text="x"), "main", "active")
    assert "job read" in what_happens(CancelSignal(job="read"), "main", "active")
    assert "its jobs go on" in what_happens(CancelSignal(), "main", "active")
    assert "sums up" in what_happens(CompactSignal(), "main", "active")
    assert "crashed" in what_happens(CompactSignal(lane="core:a"), "main", "crashed")


def test_jobs_are_listed_with_what_they_do() -> None:
    reports = (
        StatusReport(lane="edge", state="EDGE_IDLE"),
        StatusReport(lane="core:read", state="CORE_WAITING_TOOL", skill="digest", step="collect"),
    )
    assert lanes_text("main", reports) == "main: idle\n- read: waiting tool, digest, collect"
    assert "No jobs" in lanes_text("main", reports[:1])
    assert "has not said" in lanes_text("main", ())
