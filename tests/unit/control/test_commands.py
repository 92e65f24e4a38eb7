"""A message is read as a command only when it surely is one, and its words as what the row takes."""

import pytest

from choir_common.errors import BadInput, Forbidden, NotFound
from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.commands.choices import Choices, Shown
from choir_control.commands.obey import FOR_THE_AGENT, help_text, unknown_text
from choir_control.commands.phrasing import as_typed
from choir_control.commands.reading import Typed, find_row, read_arguments, read_typed
from choir_control.commands.row import Argument, Call, Kind, Row
from choir_control.commands.table import TABLE, rows_for
from choir_control.commands.target import target_of
from choir_control.inbox.words import lanes_text, what_happens

EVERYTHING = Row(
    "x",
    typed="/do",
    arguments=(
        Argument("agent", Kind.AGENT, required=True),
        Argument("count", Kind.COUNT),
        Argument("settings", Kind.SETTINGS),
    ),
)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("/inject in French", Typed("/inject", "in French")),
        ("/inject  two\nlines ", Typed("/inject", "two\nlines")),
        ("/Cancel read-a\n", Typed("/cancel", "read-a")),
        ("/compact@my_bot", Typed("/compact")),
        ("/update_all", Typed("/update-all")),
        ("/frobnicate now", Typed("/frobnicate", "now")),
    ],
)
def test_a_command_is_read_with_what_follows_it(text: str, typed: Typed) -> None:
    assert read_typed(text) == typed


@pytest.mark.parametrize(
    "text",
    [
        "hello",
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
    assert read_typed(text) is None


def test_what_is_meant_for_the_agent_is_no_command_of_ours() -> None:
    for text in ("/continue", "/CONTINUE", '/tool choir.fs.read {"path": "a"}'):
        typed = read_typed(text)
        assert typed and typed.name in FOR_THE_AGENT


def test_the_row_of_most_words_is_meant() -> None:
    rows = (Row("a", typed="/model"), Row("b", typed="/model llm"))
    assert find_row(rows, Typed("/model", "llm quick")) == (rows[1], "quick")
    assert find_row(rows, Typed("/model", "")) == (rows[0], "")
    assert find_row(rows, Typed("/models", "")) is None
    voices = (Row("a", typed="/voice"), Row("b", typed="/voice", arguments=(Argument("name"),)))
    assert find_row(voices, Typed("/voice", "")) == (voices[0], "")
    assert find_row(voices, Typed("/voice", "calm")) == (voices[1], "calm")
    assert find_row((Row("c", typed="/agent list"),), Typed("/agent", "List")) is not None


def test_arguments_are_read_by_their_kind() -> None:
    given = read_arguments(EVERYTHING, "main 7 llm=quick --voice-profile=calm")
    assert given.values == {"agent": "main", "count": "7"}
    assert given.settings == {"llm": "quick", "voice_profile": "calm"}
    text = Row("x", typed="/say", arguments=(Argument("text", Kind.TEXT, required=True),))
    assert read_arguments(text, "two  words\nand a line").values["text"] == "two  words\nand a line"


@pytest.mark.parametrize(
    "text", ["", "main x", "main 0", "main 999999999999", "main 1 llm", "m 1 =x"]
)
def test_words_that_do_not_fit_are_answered_with_the_usage(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_arguments(EVERYTHING, text)
    assert EVERYTHING.usage in caught.value.message


def test_more_words_than_a_command_takes_are_refused() -> None:
    with pytest.raises(BadInput, match="too much"):
        read_arguments(Row("x", typed="/compact"), "now")


def test_a_regular_conversation_reaches_its_own_agent_only() -> None:
    own = Call("second", is_admin=False, bound="main", session_id=None)
    assert target_of(own) == "main"
    named = Call("second", False, "main", None, {"agent": "other"})
    with pytest.raises(Forbidden, match="reaches main"):
        target_of(named)
    assert target_of(Call("console", True, "main", None, {"agent": "other"})) == "other"
    with pytest.raises(NotFound):
        target_of(Call("second", False, None, None))


def test_help_names_every_command_that_may_be_given_once() -> None:
    for is_admin in (False, True):
        lines = help_text(is_admin).splitlines()[:-1]
        usages = [row.usage_for(is_admin=is_admin) for row in rows_for(is_admin)]
        assert [line.split(" - ")[0] for line in lines] == usages
    assert "/start" not in help_text(is_admin=False)


def test_every_row_has_a_name_of_its_own_and_a_sentence() -> None:
    assert all(row.summary.endswith(".") and row.name for row in TABLE)
    spoken = [row.usage for row in TABLE if row.typed]
    routes = [row.route for row in TABLE if row.route]
    # one command of choirctl may stand for two routes: `memory delete` takes a document, or a session
    commands = [(row.choirctl, row.route) for row in TABLE if row.choirctl]
    for filled in (spoken, routes, commands):
        assert len(set(filled)) == len(filled)


def test_what_a_command_is_not_is_said() -> None:
    assert "admin conversations" in unknown_text(Typed("/start", "x"), is_admin=False)
    assert "/agent list" in unknown_text(Typed("/agent", ""), is_admin=True)
    assert "There is no command /frob" in unknown_text(Typed("/frob"), is_admin=True)


def test_on_a_phone_a_message_names_what_can_be_typed_there() -> None:
    for text, expected in (
        ("stop it (`choirctl agent stop main`), or wait", "stop it (`/stop main`), or wait"),
        ("Run `choirctl config load` first.", "Run `/config load` first."),
        ("use: choirctl agent update-all", "use: /update-all"),
        ("choirctl agent update main", "/update main"),
        ("see `choirctl approval show a1`", "see `choirctl approval show a1`"),
    ):
        assert as_typed(text, TABLE) == expected


def test_a_regular_conversation_is_shown_no_argument_that_it_may_not_give() -> None:
    assert "[agent]" not in help_text(is_admin=False) and "/status - " in help_text(is_admin=False)
    assert "/status [agent]" in help_text(is_admin=True)


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    assert "Did you mean /help?" in unknown_text(Typed("/hlep"), is_admin=False)
    assert "Did you mean /cores?" in unknown_text(Typed("/coers"), is_admin=False)
    assert "Did you mean" not in unknown_text(Typed("/update-al"), is_admin=False)
    assert "Did you mean /update-all?" in unknown_text(Typed("/update-al"), is_admin=True)


def test_a_number_means_what_was_shown_beside_it() -> None:
    choices = Choices()
    choices.show("console", [Shown("a", "1"), Shown("b", "2")])
    assert choices.pick("console", 2) == Shown("b", "2")
    assert choices.pick("console", 0) is choices.pick("console", 3) is choices.pick("x", 1) is None


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
