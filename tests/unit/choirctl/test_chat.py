"""What a chat makes of what is typed, said and logged: all of it pure."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.cells import cell_len
from rich.console import Console

from choir_common.errors import InvalidRequest
from choir_common.target import Target
from choir_common.wire.attachments import Button
from choir_common.wire.events import (
    GENESIS,
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    EventPayload,
    Reply,
    SessionStopped,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
    render_payload,
)
from choir_common.wire.messages import EditTarget, OutboundMessage
from choir_common.wire.operator import CommandView
from choir_common.wire.rpc import StatusReport
from choirctl.chat.approval_prompts import PendingApprovals, without_edited
from choirctl.chat.history import history_line
from choirctl.chat.lane_activity import MAX_LINES, LaneTracker
from choirctl.chat.line_parser import (
    ChatLine,
    ChatMessage,
    Correction,
    FileMessage,
    LeaveChat,
    ShowHistory,
    parse_line,
)
from choirctl.chat.prompt import ChatCompleter, open_history
from choirctl.chat.render import one_line, render_message


def an_event(payload: EventPayload, lane: str = "edge", rev: int = 1) -> Event:
    return Event(
        session_id="s",
        rev=rev,
        lane=lane,
        type=payload.type,
        payload=render_payload(payload),
        at="2026-11-21T05:00:00.123456Z",
        hash_prev=GENESIS,
        hash="h",
    )


def a_message(number: int, text: str = "May I?", *data: str, edits: int = 0) -> OutboundMessage:
    return OutboundMessage(
        outbox_id=number,
        dm="console",
        gateway="console",
        agent_id="main",
        session_id="s",
        rev=number,
        kind="answer",
        text=text,
        answers=None,
        at=datetime.now(UTC),
        buttons=tuple(Button(label=each[-1], data=each) for each in data),
        edits=EditTarget(outbox_id=edits) if edits else None,
    )


def asking(number: int) -> OutboundMessage:
    return a_message(number, "May I?", f"a:{number}:y", f"a:{number}:n")


A_USER_MSG = UserMessageStarted(turn_id="t", inbox_id="i", dm="console", text="go")
AN_ANSWER = Reply(turn_id="t", dm="console", text="done", kind="answer")
A_JOB = CoreStarted(job_id="j", job_name="notes", call_id="c", dm="console", task_spec="read\nall")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("hello", ChatMessage("hello")),
        ("/status", ChatMessage("/status")),
        ("/sendmail", ChatMessage("/sendmail")),
        ("/send a.txt", FileMessage(Path("a.txt"), "")),
        ("/send 'a b.txt' it's  here", FileMessage(Path("a b.txt"), "it's  here")),
        ("/send a\\ b.txt # no comment", FileMessage(Path("a b.txt"), "# no comment")),
        ("/edit", Correction("")),
        ("/edit  no, /stop it ", Correction("no, /stop it")),
        ("/history", ShowHistory(20)),
        ("/history 3", ShowHistory(3)),
        ("/quit", LeaveChat()),
    ],
)
def test_a_line_is_understood(typed: str, meant: ChatLine) -> None:
    assert parse_line(typed) == meant


@pytest.mark.parametrize(
    "typed", ["/send", "/send 'a", "/history x", "/history 0", "/history 9999"]
)
def test_half_a_line_is_refused_with_its_usage(typed: str) -> None:
    with pytest.raises(InvalidRequest, match=typed.split()[0]):
        parse_line(typed)


def test_a_turn_and_its_tools_are_shown_while_they_last() -> None:
    lanes = LaneTracker()
    assert lanes.apply(an_event(A_USER_MSG), 10.0) is None
    assert lanes.lines(12.0, 80) == ["edge: thinking, 2 s"]
    call = ToolCallRequested(turn_id="t", call_id="c", tool="choir.fs.read", input={})
    lanes.apply(an_event(call), 12.0)
    assert lanes.lines(13.0, 80) == ["edge: choir.fs.read, 3 s"]
    result = ToolResultCommitted(
        turn_id="t", call_id="c", tool="choir.fs.read", status="success", output={}
    )
    lanes.apply(an_event(result), 14.0)
    assert lanes.lines(14.0, 80) == ["edge: thinking, 4 s"]
    lanes.apply(an_event(AN_ANSWER.model_copy(update={"kind": "notice"})), 15.0)
    assert lanes.busy
    lanes.apply(an_event(AN_ANSWER), 15.0)
    assert lanes.lines(16.0, 80) == []


def test_a_job_is_told_from_its_begin_to_its_end() -> None:
    lanes = LaneTracker()
    assert lanes.apply(an_event(A_JOB, "core:notes"), 0.0) == "job notes begins: read all"
    assert lanes.lines(5.0, 80) == ["job notes: thinking, 5 s"]
    report = CoreReported(
        job_id="j", job_name="notes", kind="need_info", body={"missing": "which\x1b[2J?"}
    )
    assert (
        lanes.apply(an_event(report, "core:notes"), 6.0)
        == "job notes, a question: which<U+001B>[2J?"
    )
    end = CoreStopped(
        job_id="j", job_name="notes", outcome="error", reason="no disk", duration_ms=61_000
    )
    told = lanes.apply(an_event(end, "core:notes"), 7.0)
    assert told == "job notes failed after 61 s: no disk"
    assert lanes.lines(8.0, 80) == []


def test_what_runs_already_comes_from_the_agents_own_report_and_ends_with_the_session() -> None:
    lanes = LaneTracker()
    reports = (
        StatusReport(lane="edge", state="EDGE_IDLE"),
        StatusReport(lane="core:read", state="CORE_WAITING_TOOL"),
    )
    lanes.start("main", reports, 0.0)
    assert lanes.lines(1.0, 80) == ["job read: waiting for a tool, 1 s"]
    lanes.apply(an_event(SessionStopped(reason="stopped")), 1.0)
    assert lanes.lines(1.0, 80) == []


def test_an_event_of_a_newer_choir_is_passed_over() -> None:
    unknown = an_event(A_USER_MSG).model_copy(update={"type": "dreamt"})
    lanes = LaneTracker()
    assert lanes.apply(unknown, 0.0) is None and not lanes.busy


@pytest.mark.parametrize("width", [5, 20, 40])
def test_no_line_is_wider_than_the_terminal_and_a_crowd_is_counted(width: int) -> None:
    lanes = LaneTracker()
    for number in range(20):
        job = A_JOB.model_copy(update={"job_name": f"读书笔记-{number}"})
        lanes.apply(an_event(job, f"core:{job.job_name}"), 0.0)
    lines = lanes.lines(100.0, width)
    assert len(lines) == MAX_LINES
    assert all(cell_len(line) <= width for line in lines)
    assert lanes.lines(100.0, 80)[-1] == "and 15 more"


def test_nothing_that_is_said_can_steer_the_terminal() -> None:
    hostile = "a\x1b]52;c;x\x07b\u202egnp\x9b2J\r\nnext\tone"
    assert one_line(hostile, 99) == (
        "a<U+001B>]52;c;x<U+0007>b<U+202E>gnp<U+009B>2J<U+000D> next one"
    )
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    for agent, text in (("main", hostile), ("ma\x1b[2Jin", "**b** [t](http://x)\x1b[2J")):
        message = a_message(1, text).model_copy(update={"agent_id": agent})
        shown = io.StringIO()
        Console(file=shown, width=60, color_system=None).print(render_message(message))
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(shown.getvalue())


def as_shown(message: OutboundMessage, width: int = 60) -> str:
    shown = io.StringIO()
    Console(file=shown, width=width, color_system=None).print(render_message(message))
    return shown.getvalue()


def test_markdown_is_laid_out_and_a_links_address_is_seen() -> None:
    text = "# Plan\n\n- one\n- **two**\n\n[here](https://example.org/x)"
    shown = as_shown(a_message(1, text))
    assert "main" in shown and "Plan" in shown and " • one" in shown and "**" not in shown
    assert "https://example.org/x" in shown
    assert "first\nsecond" in as_shown(a_message(1, "first\nsecond"))
    assert as_shown(a_message(1, "[red]plain[/] words")).count("[red]") == 1
    assert ":cd: :smile:" in as_shown(a_message(1, ":cd: :smile:"))
    assert ":cd: :smile:" in as_shown(a_message(1, "**bold** :cd: :smile:"))
    assert max(map(len, as_shown(a_message(1, "word " * 100 + "\n**x**"), 24).splitlines())) <= 24


def test_choirs_own_words_are_shown_as_they_are() -> None:
    message = a_message(1, "-**secret**\n+[x](y)").model_copy(update={"agent_id": "choir"})
    assert as_shown(message) == "▌ choir\n▌ -**secret**\n▌ +[x](y)\n"


def test_an_agents_words_cannot_look_like_choirs() -> None:
    choirs = a_message(1, "main requests\nmore").model_copy(update={"agent_id": "choir"})
    imitation = as_shown(choirs).removesuffix("\n")
    for text in (imitation, f"hello\n{imitation}", f"**hello**\n\n{imitation}"):
        assert "▌" not in as_shown(a_message(2, text))


def test_what_was_said_before_is_cut_unless_all_of_it_is_wanted() -> None:
    event = an_event(A_USER_MSG.model_copy(update={"text": "1\n2\n3\n4 [b]\x1b"}))
    here = datetime.fromisoformat(event.at).astimezone()
    assert (
        history_line(event, "main", full=False)
        == f"[dim]{here:%m-%d %H:%M} you: 1\n  2\n  3\n  …[/]"
    )
    assert history_line(event, "main", full=True).endswith("4 \\[b]<U+001B>[/]")
    assert "main: done" in history_line(an_event(AN_ANSWER), "main", full=True)


def completions(suggestions: ChatCompleter, text: str) -> list[str]:
    found = suggestions.get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


class FakeChat:
    """A chat with running jobs, and nothing around its input line."""

    def __init__(self, *jobs: str) -> None:
        self._jobs = jobs
        self.keeps = True

    def running_jobs(self) -> tuple[str, ...]:
        return self._jobs

    def prompt_text(self) -> str:
        return ""

    def keeps_history(self) -> bool:
        return self.keeps

    def status_lines(self, width: int) -> tuple[str, ...]:
        return ()


def test_tab_completes_commands_jobs_and_files(tmp_path: Path) -> None:
    names = ("/model", "/model llm", "/cancel", "status")
    commands = [CommandView(name=n, usage=f"{n} [x]", summary=f"Does {n}.") for n in names]
    suggestions = ChatCompleter(commands, FakeChat("notes", "news", "else"))
    assert completions(suggestions, "/mo") == ["/model", "/model llm"]
    assert completions(suggestions, "/s") == ["/send"]
    assert completions(suggestions, "/cancel n") == ["/cancel news", "/cancel notes"]
    assert completions(suggestions, "st") == []
    (tmp_path / "report.pdf").touch()
    assert completions(suggestions, f"/send {tmp_path}/rep") == [f"/send {tmp_path}/report.pdf"]
    assert suggestions.usage_hint("/model llm q") == "/model llm [x]: Does /model llm."
    assert suggestions.usage_hint("/model") == "/model [x]: Does /model."
    assert suggestions.usage_hint("hello") == suggestions.usage_hint("/mo") == ""


@pytest.mark.parametrize("name", ["my notes.txt", "it's.txt", 'a "b" c.txt', "back\\slash.txt"])
@pytest.mark.parametrize("begun", ["{}", "'{}", '"{}', "{}\\"])
def test_a_completed_file_name_can_be_sent_whatever_is_in_it(
    tmp_path: Path, name: str, begun: str
) -> None:
    (tmp_path / name).touch()
    suggestions = ChatCompleter((), FakeChat())
    [completed] = completions(suggestions, f"/send {begun.format(f'{tmp_path}/{name[:1]}')}")
    assert parse_line(f"{completed} look at it") == FileMessage(tmp_path / name, "look at it")


def test_a_name_with_a_blank_is_completed_further(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").touch()
    typed = f"/send {tmp_path}/my\\ no"
    assert completions(ChatCompleter((), FakeChat()), typed) == [f"/send {tmp_path}/my\\ notes.txt"]
    assert completions(ChatCompleter((), FakeChat()), f"/send {tmp_path}/my and") == []


def test_y_decides_the_one_request_that_was_seen() -> None:
    questions = PendingApprovals()
    assert questions.parse_answer("y", 0.0) is None, "without a request it is a word like any other"
    assert questions.add_message(a_message(1, "no buttons"), 0.0) is None
    question = questions.add_message(asking(5), 10.0)
    assert question is not None and questions.prompt_prefix() == "y/n "
    for typed, data in (("y", "a:5:y"), (" YES ", "a:5:y"), ("n", "a:5:n"), ("no 1", "a:5:n")):
        decided = questions.parse_answer(typed, 11.0)
        assert decided is not None and decided.data == data
    for typed in ("yes please", "y?", "ny", "no, 1", ""):
        assert questions.parse_answer(typed, 11.0) is None
    questions.remove(question)
    assert questions.parse_answer("y", 12.0) is None


def test_scopes_and_pages_of_a_request_are_typed() -> None:
    questions = PendingApprovals()
    codes = ("y", "s", "a", "n")
    question = questions.add_message(a_message(5, "?", *(f"a:x:{code}" for code in codes)), 1.0)
    assert question is not None and "y session until the session ends" in question.describe()
    for typed, code in (("y", "y"), ("y session", "s"), ("Yes always 1", "a"), ("n", "n")):
        decided = questions.parse_answer(typed, 2.0)
        assert decided is not None and decided.data == f"a:x:{code}"
    for typed in ("y job", "m", "n session"):
        with pytest.raises(InvalidRequest, match="Nothing was decided"):
            questions.parse_answer(typed, 2.0)
    edit = a_message(6, "page", "a:x:p2", "a:x:n", edits=5)
    assert [message.outbox_id for message in without_edited([question.message, edit])] == [6]
    questions.add_message(edit, 3.0)
    more = questions.parse_answer("m", 4.0)
    assert more is not None and more.data == "a:x:p2"
    with pytest.raises(InvalidRequest, match="m shows all"):
        questions.parse_answer("y", 4.0)


def test_a_request_that_came_while_a_line_was_typed_is_not_decided_by_it() -> None:
    questions = PendingApprovals()
    questions.add_message(asking(5), 10.0)
    with pytest.raises(InvalidRequest, match="Nothing was decided"):
        questions.parse_answer("y", 9.0)


def test_with_several_requests_the_number_says_which() -> None:
    questions = PendingApprovals()
    for number in (5, 6, 7):
        questions.add_message(asking(number), 1.0)
    questions.add_message(a_message(8, "Approved.", edits=6), 1.0)
    with pytest.raises(InvalidRequest, match="`y 1`, `y 3`"):
        questions.parse_answer("y", 2.0)
    with pytest.raises(InvalidRequest, match="Which"):
        questions.parse_answer("n 2", 2.0)
    decided = questions.parse_answer("n 3", 2.0)
    assert decided is not None and decided.data == "a:7:n"


def test_only_what_no_later_message_edited_is_open() -> None:
    said = [asking(1), a_message(2, "hello"), asking(3), a_message(4, "Timed out.", edits=1)]
    assert [message.outbox_id for message in without_edited(said)] == [3]


def test_lines_typed_incognito_are_not_stored_on_disk(tmp_path: Path) -> None:
    chat = FakeChat()
    history = open_history(Target(tmp_path, None), chat)
    history.append_string("hello")
    chat.keeps = False
    history.append_string("my secret")
    # the arrow keys still find it until the chat is left
    assert history.get_strings() == ["hello", "my secret"]
    chat.keeps = True
    history.append_string("goodbye")
    stored = (tmp_path / "chat_history").read_text()
    assert "hello" in stored and "goodbye" in stored and "secret" not in stored
