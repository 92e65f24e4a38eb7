"""A message is read as a command only when it surely is one, and its words as what the row takes."""

import pytest

from choir_common.errors import Forbidden, InvalidRequest, NotFound
from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.conversations.commands.dialogue import DialogueState, ShownApproval
from choir_control.conversations.commands.handler import AGENT_COMMANDS, help_text, unknown_text
from choir_control.conversations.commands.parser import (
    TypedCommand,
    find_command,
    parse_arguments,
    parse_command,
    replace_choirctl_commands,
    target_agent,
)
from choir_control.conversations.commands.spec import (
    ArgumentKind,
    CommandArgument,
    CommandCall,
    CommandSpec,
)
from choir_control.conversations.commands.table import CHAT_COMMANDS, commands_for
from choir_control.conversations.commands.texts import format_signal_effect, format_status

EVERYTHING = CommandSpec(
    "x",
    typed_form="/do",
    arguments=(
        CommandArgument("agent", ArgumentKind.AGENT, required=True),
        CommandArgument("count", ArgumentKind.COUNT),
        CommandArgument("settings", ArgumentKind.SETTINGS),
    ),
)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("/inject in French", TypedCommand("/inject", "in French")),
        ("/inject  two\nlines ", TypedCommand("/inject", "two\nlines")),
        ("/Cancel read-a\n", TypedCommand("/cancel", "read-a")),
        ("/compact@my_bot", TypedCommand("/compact")),
        ("/update_all", TypedCommand("/update-all")),
        ("/frobnicate now", TypedCommand("/frobnicate", "now")),
    ],
)
def test_a_command_is_read_with_what_follows_it(text: str, typed: TypedCommand) -> None:
    assert parse_command(text) == typed


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
    assert parse_command(text) is None


def test_what_is_meant_for_the_agent_is_no_command_of_ours() -> None:
    for text in ("/continue", "/CONTINUE", '/tool choir.fs.read {"path": "a"}'):
        typed = parse_command(text)
        assert typed and typed.name in AGENT_COMMANDS


def test_the_row_of_most_words_is_meant() -> None:
    rows = (CommandSpec("a", typed_form="/model"), CommandSpec("b", typed_form="/model llm"))
    assert find_command(rows, TypedCommand("/model", "llm quick")) == (rows[1], "quick")
    assert find_command(rows, TypedCommand("/model", "")) == (rows[0], "")
    assert find_command(rows, TypedCommand("/models", "")) is None
    voices = (
        CommandSpec("a", typed_form="/voice"),
        CommandSpec("b", typed_form="/voice", arguments=(CommandArgument("name"),)),
    )
    assert find_command(voices, TypedCommand("/voice", "")) == (voices[0], "")
    assert find_command(voices, TypedCommand("/voice", "calm")) == (voices[1], "calm")
    assert (
        find_command((CommandSpec("c", typed_form="/agent list"),), TypedCommand("/agent", "List"))
        is not None
    )


def test_arguments_are_read_by_their_kind() -> None:
    given = parse_arguments(EVERYTHING, "main 7 llm=quick --voice-profile=calm")
    assert given.values == {"agent": "main", "count": "7"}
    assert given.settings == {"llm": "quick", "voice_profile": "calm"}
    text = CommandSpec(
        "x",
        typed_form="/say",
        arguments=(CommandArgument("text", ArgumentKind.TEXT, required=True),),
    )
    assert (
        parse_arguments(text, "two  words\nand a line").values["text"] == "two  words\nand a line"
    )


@pytest.mark.parametrize(
    "text", ["", "main x", "main 0", "main 999999999999", "main 1 llm", "m 1 =x"]
)
def test_words_that_do_not_fit_are_answered_with_the_usage(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_arguments(EVERYTHING, text)
    assert EVERYTHING.usage in caught.value.message


def test_more_words_than_a_command_takes_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="not expected"):
        parse_arguments(CommandSpec("x", typed_form="/compact"), "now")


def test_a_regular_conversation_reaches_its_own_agent_only() -> None:
    own = CommandCall("second", is_admin=False, bound_agent_id="main", session_id=None)
    assert target_agent(own) == "main"
    named = CommandCall("second", False, "main", None, {"agent": "other"})
    with pytest.raises(Forbidden, match="bound to main"):
        target_agent(named)
    assert target_agent(CommandCall("console", True, "main", None, {"agent": "other"})) == "other"
    with pytest.raises(NotFound):
        target_agent(CommandCall("second", False, None, None))


def test_help_names_every_command_that_may_be_given_once() -> None:
    for is_admin in (False, True):
        lines = help_text("admin" if is_admin else "user").splitlines()[:-1]
        usages = [
            row.usage_for(is_admin=is_admin)
            for row in commands_for("admin" if is_admin else "user")
        ]
        assert [line.split(" - ")[0] for line in lines] == usages
    assert "/start" not in help_text("user")


def test_every_row_has_a_name_of_its_own_and_a_sentence() -> None:
    assert all(row.summary.endswith(".") and row.name for row in CHAT_COMMANDS)
    spoken = [row.usage for row in CHAT_COMMANDS if row.typed_form]
    routes = [row.route for row in CHAT_COMMANDS if row.route]
    # one command of choirctl may stand for two routes: `memory delete` takes a document, or a session
    commands = [(row.choirctl, row.route) for row in CHAT_COMMANDS if row.choirctl]
    for filled in (spoken, routes, commands):
        assert len(set(filled)) == len(filled)


def test_what_a_command_is_not_is_said() -> None:
    assert "admin conversations" in unknown_text(TypedCommand("/start", "x"), "user")
    assert "/agent list" in unknown_text(TypedCommand("/agent", ""), "admin")
    assert "There is no command /frob" in unknown_text(TypedCommand("/frob"), "admin")


def test_on_a_phone_a_message_names_what_can_be_typed_there() -> None:
    for text, expected in (
        ("stop it (`choirctl agent stop main`), or wait", "stop it (`/stop main`), or wait"),
        ("Run `choirctl config load` first.", "Run `/config load` first."),
        ("use: choirctl agent update-all", "use: /update-all"),
        ("choirctl agent update main", "/update main"),
        ("see `choirctl approval show a1`", "see `choirctl approval show a1`"),
    ):
        assert replace_choirctl_commands(text, CHAT_COMMANDS) == expected


def test_a_regular_conversation_is_shown_no_argument_that_it_may_not_give() -> None:
    assert "[agent]" not in help_text("user") and "/status - " in help_text("user")
    assert "/status [agent]" in help_text("admin")


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    assert "Did you mean /help?" in unknown_text(TypedCommand("/hlep"), "user")
    assert "Did you mean /cores?" in unknown_text(TypedCommand("/coers"), "user")
    assert "Did you mean" not in unknown_text(TypedCommand("/update-al"), "user")
    assert "Did you mean /update-all?" in unknown_text(TypedCommand("/update-al"), "admin")


def test_a_number_means_what_was_shown_beside_it() -> None:
    choices = DialogueState()
    choices.set_list("console", [ShownApproval("a", "1"), ShownApproval("b", "2")])
    assert choices.get_item("console", 2) == ShownApproval("b", "2")
    assert (
        choices.get_item("console", 0)
        is choices.get_item("console", 3)
        is choices.get_item("x", 1)
        is None
    )


def test_what_happens_is_said_in_words() -> None:
    assert "next step" in format_signal_effect(InjectSignal(text="x"), "main", "active")
    assert "job read" in format_signal_effect(CancelSignal(job="read"), "main", "active")
    assert "its jobs continue" in format_signal_effect(CancelSignal(), "main", "active")
    assert "summarizes" in format_signal_effect(CompactSignal(), "main", "active")
    assert "crashed" in format_signal_effect(CompactSignal(lane="core:a"), "main", "crashed")


def test_jobs_are_listed_with_what_they_do() -> None:
    reports = (
        StatusReport(lane="edge", state="EDGE_IDLE"),
        StatusReport(lane="core:read", state="CORE_WAITING_TOOL", skill="digest", step="collect"),
    )
    assert (
        format_status("main", reports) == "main: idle\n- read: waiting for a tool, digest, collect"
    )
    assert "No jobs" in format_status("main", reports[:1])
    assert "has not reported" in format_status("main", ())
