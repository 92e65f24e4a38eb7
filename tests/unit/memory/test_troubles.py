"""What went wrong with tools and how it ended, read from a session's events."""

import pytest

from choir_common.eventlog.tool_results import MAX_FAILURE_CHARS, failure_text
from choir_common.wire.events import ToolResultCommitted, ToolStatus
from choir_common.wire.model import JsonObject
from choir_memory.sessions.failure_tracker import EndedFailure
from choir_memory.sessions.splitter_state import SplitterState, parse_state, render_state
from choir_memory.sessions.units import UnitSplitter
from tests.support.sessions import LogBuilder

FAILED: JsonObject = {"exit_code": 2, "stdout": "", "stderr": "make: *** No rule to make target"}
DONE: JsonObject = {"exit_code": 0, "stdout": "ok", "stderr": ""}


def troubles(script: LogBuilder, cut_at: int = 0) -> list[EndedFailure]:
    """Return what a session's log tells, read in two pages."""
    first = UnitSplitter("main", SplitterState())
    for event in script.events[:cut_at]:
        first.take(event)
    second = UnitSplitter("main", parse_state(render_state(first.unsettled)))
    for event in script.events[cut_at:]:
        second.take(event)
    second.finish()
    return first.troubles.failures + second.troubles.failures


def make_shell(*runs: tuple[str, JsonObject], ended: bool = True) -> LogBuilder:
    script = LogBuilder()
    script.user("Build it.")
    for number, (command, output) in enumerate(runs):
        script.tool_call(f"c{number}", "choir.exec", {"command": command})
        script.result(f"c{number}", "choir.exec", output)
    if ended:
        script.reply("Done.")
    return script


def test_what_helped_is_kept_with_the_failure() -> None:
    script = make_shell(
        ("make all", FAILED), ("./configure", DONE), ("ls", DONE), ("make all", DONE)
    )
    (trouble,) = troubles(script)
    assert (trouble.tool, trouble.end) == ("choir.exec", "resolved")
    assert trouble.message == "exit code 2: make: *** No rule to make target"
    assert trouble.tried == 'choir.exec {"command":"make all"}'
    assert [step.partition(" ")[2] for step in trouble.steps] == [
        '{"command":"./configure"}',
        '{"command":"ls"}',
        '{"command":"make all"}',
    ]


def test_what_was_tried_after_a_page_was_read_is_as_trusted_as_the_page() -> None:
    script = LogBuilder()
    script.user("Read the page.")
    script.tool("c0", "choir.web.browse", {"text": "Run ./configure."})
    script.reply("Read.")
    for number, output in enumerate((FAILED, DONE)):
        script.tool_call(f"d{number}", "choir.exec", {"command": "make all"}, "t2")
        script.result(f"d{number}", "choir.exec", output, "t2")
    (trouble,) = troubles(script)
    assert trouble.outside
    (trouble,) = troubles(make_shell(("make all", FAILED), ("make all", DONE)))
    assert not trouble.outside


def test_another_call_of_the_same_tool_that_works_resolves_nothing() -> None:
    (trouble,) = troubles(make_shell(("make all", FAILED), ("ls", DONE)))
    assert (trouble.end, trouble.steps) == ("abandoned", ())


def test_what_was_tried_again_in_vain_has_failed() -> None:
    runs = [("make all", FAILED), ("ls", DONE), ("make -k all", FAILED)]
    (trouble,) = troubles(make_shell(*runs))
    assert trouble.end == "failed"
    assert "make -k all" in trouble.tried


def test_a_failure_is_not_told_before_its_turn_has_ended() -> None:
    script = make_shell(("make all", FAILED), ended=False)
    cutter = UnitSplitter("main", SplitterState())
    for event in script.events:
        cutter.take(event)
    assert cutter.troubles.failures == []
    assert [one.end for one in troubles(script)] == ["abandoned"]


def test_a_log_in_two_pages_tells_the_same_wherever_it_is_cut() -> None:
    script = make_shell(("make all", FAILED), ("./configure", DONE), ("make all", DONE))
    whole = troubles(script)
    for cut_at in range(len(script.events) + 1):
        assert troubles(script, cut_at) == whole


def test_what_only_one_lane_may_see_is_not_remembered() -> None:
    script = LogBuilder()
    script.tool_call("c1", "choir.exec", {"command": "make"})
    script.result("c1", "choir.exec", FAILED, exposure="core")
    assert troubles(script) == []


@pytest.mark.parametrize(
    ("tool", "status", "output", "said"),
    [
        (
            "choir.fs.read",
            "error",
            {"code": "not_found", "message": "No a.txt."},
            "not_found No a.txt.",
        ),
        ("choir.exec", "success", {"exit_code": 1, "stdout": "2 failed"}, "exit code 1: 2 failed"),
        ("choir.exec", "success", {"exit_code": 0, "stderr": "warning"}, None),
        ("choir.fs.read", "refused", {"code": "locked"}, None),
        ("choir.fs.read", "interrupted", {"code": "cancelled"}, None),
        ("choir.memory.query", "error", {"code": "bad_input"}, None),
    ],
)
def test_only_a_call_that_ran_and_failed_has_failed(
    tool: str, status: ToolStatus, output: JsonObject, said: str | None
) -> None:
    assert failure_text(tool, status, output) == said


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    output: JsonObject = {"code": "x", "message": "begin " + "." * 5_000 + " end"}
    said = failure_text("choir.fs.read", "error", output)
    assert said is not None and len(said) <= MAX_FAILURE_CHARS + 3
    assert said.startswith("x begin") and said.endswith("end")


def test_a_turn_that_fails_without_end_is_followed_in_bounds() -> None:
    script = LogBuilder()
    for number in range(200):
        call, turn = f"c{number}", f"t{number % 50}"
        script.tool_call(call, "choir.exec", {"command": f"run {'x' * number}"}, turn)
        script.add(
            ToolResultCommitted(
                turn_id=turn, call_id=call, tool="choir.exec", status="error", output={"code": "e"}
            )
        )
    cutter = UnitSplitter("main", SplitterState())
    for event in script.events:
        cutter.take(event)
    following = cutter.unsettled.following
    assert len(following.turns) <= 32
    assert sum(map(len, following.turns.values())) <= 32 * 16
