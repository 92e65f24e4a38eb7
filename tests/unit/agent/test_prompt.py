"""The prompt: order, whole turns, stable bytes, and a result for every tool call (spec 11.3)."""

from datetime import UTC, datetime
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.log.session_log import SessionLog
from choir_agent.memory.search import by_hash, by_words
from choir_agent.memory.window import EventWindow
from choir_agent.prompt.assemble import Assembler, Prompt
from choir_agent.prompt.identity import read_static_prompt
from choir_common.wire.events import ModelOutput, Reply, ToolCall, ToolResultCommitted, UserMsg
from choir_common.wire.json import JsonObject


class StillClock:
    """Always noon."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class Session:
    """A log and the window it feeds."""

    def __init__(self) -> None:
        self.window = EventWindow()
        self.log = SessionLog("ses", StillClock(), self.window.take_in, str)
        self.append, self.entries = self.log.append, self.log.entries


def new_log() -> Session:
    return Session()


def begin(log: Session, number: int) -> None:
    turn = f"t{number}"
    log.append("edge", UserMsg(turn_id=turn, inbox_id=f"i{number}", dm="d", text=f"ask {number}"))


def use_tool(log: Session, number: int, call: int, *, with_result: bool = True) -> None:
    turn, call_id = f"t{number}", f"c{number}.{call}"
    calls = (ToolCall(call_id=call_id, tool="choir.fs.read", arguments='{"path":"a"}'),)
    log.append(
        "edge",
        ModelOutput(turn_id=turn, text="", tool_calls=calls, model="m", finish_reason="stop"),
    )
    if with_result:
        log.append(
            "edge",
            ToolResultCommitted(
                turn_id=turn,
                call_id=call_id,
                tool="choir.fs.read",
                status="success",
                output={"text": "a"},
            ),
        )


def end(log: Session, number: int) -> None:
    turn = f"t{number}"
    words = f"reply {number}"
    log.append("edge", ModelOutput(turn_id=turn, text=words, model="m", finish_reason="stop"))
    log.append("edge", Reply(turn_id=turn, dm="d", text=words, kind="answer", answers=f"i{number}"))


def assembler() -> Assembler:
    return Assembler("be kind", lambda name: name.replace(".", "_"))


def read(prompt: Prompt) -> list[JsonObject]:
    return [orjson.loads(message) for message in prompt.messages]


def roles(prompt: Prompt) -> list[str]:
    return [str(message["role"]) for message in read(prompt)]


def test_the_order_is_instructions_history_then_the_current_message() -> None:
    log = new_log()
    begin(log, 1)
    use_tool(log, 1, 1)
    end(log, 1)
    begin(log, 2)
    prompt = assembler().assemble(log.window.turns(50), b"[]")
    assert roles(prompt) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert read(prompt)[-1]["content"] == "ask 2"


def test_identity_stands_between_the_instructions_and_everything_else(tmp_path: Path) -> None:
    (tmp_path / "USER.md").write_text("Ada, likes tea")
    (tmp_path / "SOUL.md").write_text("dry humour")
    text = read_static_prompt(tmp_path)
    assert text.index("edge lane") < text.index("Ada, likes tea") < text.index("dry humour")


def test_a_missing_identity_file_is_left_out(tmp_path: Path) -> None:
    assert "USER.md" not in read_static_prompt(tmp_path)


@given(
    shape=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30),
    limit=st.integers(4, 40),
)
def test_the_window_is_cut_at_turns_and_every_call_has_its_result(
    shape: list[tuple[int, bool]], limit: int
) -> None:
    log, prompts = new_log(), assembler()
    window = log.window
    for number, (calls, last_has_result) in enumerate(shape):
        begin(log, number)
        for call in range(calls):
            use_tool(log, number, call, with_result=call < calls - 1 or last_has_result)
        messages = read(prompts.assemble(window.turns(limit), b"[]"))
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
        asked = [
            call["id"]  # type: ignore[index, call-overload]
            for message in messages
            for call in message.get("tool_calls", ())  # type: ignore[union-attr]
        ]
        answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        assert asked == answered
        end(log, number)


def test_the_beginning_of_the_prompt_stays_the_same_bytes_for_many_turns() -> None:
    log = new_log()
    window, prompts = log.window, assembler()
    kept = 0
    last: tuple[bytes, ...] = ()
    for number in range(200):
        begin(log, number)
        messages = prompts.assemble(window.turns(50), b"[]").messages
        kept += messages[: len(last)] == last
        end(log, number)
        last = messages
    assert kept >= 170


def test_a_window_made_again_from_the_same_log_gives_the_same_prompt() -> None:
    log = new_log()
    for number in range(5):
        begin(log, number)
        use_tool(log, number, 1)
        end(log, number)
    begin(log, 9)
    first = assembler().assemble(log.window.turns(50), b"[]")
    again = Session()
    again.log.restore([entry.event() for entry in log.entries], log.log.head)
    assert assembler().assemble(again.window.turns(50), b"[]") == first


def test_words_that_ended_a_turn_without_the_model_are_told_to_it() -> None:
    log = new_log()
    begin(log, 1)
    log.append("edge", Reply(turn_id="t1", dm="d", text="Cancelled.", kind="error", answers="i1"))
    begin(log, 2)
    prompt = assembler().assemble(log.window.turns(50), b"[]")
    assert [m["content"] for m in read(prompt)][1:] == ["ask 1", "Cancelled.", "ask 2"]


def test_names_and_arguments_no_provider_takes_back_are_made_harmless() -> None:
    log = new_log()
    begin(log, 1)
    call = ToolCall(call_id="c", tool="weird name.é", arguments="{not json")
    log.append(
        "edge",
        ModelOutput(turn_id="t1", text="", tool_calls=(call,), model="m", finish_reason="stop"),
    )
    prompt = Assembler("x", lambda name: None).assemble(log.window.turns(50), b"[]")
    function = read(prompt)[2]["tool_calls"][0]["function"]  # type: ignore[index, call-overload]
    assert function == {"name": "weird_name__", "arguments": "{}"}


def test_search_finds_words_and_hashes() -> None:
    log = new_log()
    begin(log, 1)
    begin(log, 2)
    assert [hit.event.rev for hit in by_words(log.entries, "ASK 2", 5)] == [2, 1]
    wanted = log.entries[0].event()
    assert [hit.event for hit in by_hash(log.entries, wanted.hash[:8], 5)] == [wanted]
    assert by_hash(log.entries, "", 5) == []
