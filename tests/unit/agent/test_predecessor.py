"""A new session takes over its predecessor's conversation, as after a crash of the agent."""

import orjson
import pytest

from choir_agent.compaction.session_summary import summary_input
from choir_agent.log.session_state import dump_state, load_state
from choir_agent.prompt.prompt_notes import LanePrompt
from choir_agent.working_memory.log_search import SearchScope, search_words
from choir_agent.working_memory.predecessor_session import load_carried_conversation
from choir_agent.working_memory.working_memory import SnapshotWriter
from choir_common.wire.events import (
    CoreStarted,
    Fact,
    InjectedInstruction,
    LaneSummary,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
    RemindersAdded,
    Reply,
    SessionAbandoned,
    SessionStarted,
    SessionStopped,
    TurnParked,
    TurnUnparked,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.schedules import WakeUp
from tests.unit.agent.told_session import ToldSession


def log_of(session: ToldSession, from_rev: int = 1) -> JsonObject:
    tail = [entry.event() for entry in session.log.entries if entry.rev >= from_rev]
    return {"events": [event.model_dump(mode="json") for event in tail]}


def continued(before: ToldSession, name: str = "s1", from_rev: int = 1) -> ToldSession:
    """Return the session that continues another, as `app` opens it."""
    inherited = load_carried_conversation(log_of(before, from_rev), name)
    after = ToldSession()
    start = SessionStarted(
        agent_id="main", epoch=1, continues=name, seed=inherited.seed, taint=inherited.taint
    )
    after.append("edge", start)
    for copy in inherited.copies:
        after.append(copy.lane, copy.event)
    return after


def stopped(session: ToldSession) -> ToldSession:
    session.append("session", SessionStopped(reason="asked"))
    return session


def started() -> ToldSession:
    session = ToldSession()
    session.append("session", SessionStarted(agent_id="main", epoch=1))
    return session


def test_the_prompt_after_a_stop_is_the_prompt_after_a_crash() -> None:
    before = started()
    for number in range(4):
        before.turn(number, calls=2)
    after = continued(stopped(before))
    assert after.edge() == before.again().edge()
    assert after.memory.window("edge") is not None
    assert len(after.edge().messages) > 20


def test_the_time_of_the_last_message_is_known_after_a_stop_and_from_a_snapshot() -> None:
    before = started()
    assert before.log.state.last_message_at == ""
    before.turn(1)
    (answer,) = [e.event() for e in before.log.entries if e.event().type == "reply"]
    assert before.log.state.last_message_at == answer.at
    after = continued(stopped(before))
    assert after.log.state.last_message_at == answer.at
    assert load_state(dump_state(after.log.state)) == after.log.state


def test_a_chain_of_short_sessions_still_shows_every_turn_word_for_word() -> None:
    session = started()
    for number in range(6):
        session.turn(number)
        session = continued(stopped(session), f"s{number}")
    shown = b"\n".join(session.edge().messages).decode()
    assert [f"ask {n}" in shown and f"reply {n}" in shown for n in range(6)] == [True] * 6
    first = next(e.event() for e in session.log.entries if e.event().type == "carried_event")
    assert first.payload["session_id"] == "ses" and first.payload["rev"] == 2


def test_what_rolled_off_is_not_carried_and_its_summary_is_kept_with_its_session() -> None:
    before = started()
    for number in range(3):
        before.turn(number)
    summary = ReferenceSummary(summary="They spoke.", facts=(Fact(key="a", value="b"),))
    through = before.log.head.rev - 3
    compacted = MemoryCompacted(target="edge", through_rev=through, delta={}, summary=summary)
    before.append("edge", compacted)
    after = continued(stopped(before))
    shown = b"\n".join(after.edge().messages).decode()
    assert "They spoke." in shown and "ask 0" not in shown and "ask 2" in shown
    (seed,) = after.state.summaries
    assert seed == LaneSummary(
        lane="edge", summary=summary.model_copy(update={"referenced_sessions": ("s1",)})
    )
    assert 'store \\"session\\"' in shown and 'store \\"working\\"' not in shown
    third = continued(stopped(after), "s2")
    assert third.state.summaries == after.state.summaries


def test_a_summary_names_the_sessions_of_copies_that_it_folded() -> None:
    before = started()
    for number in range(3):
        before.turn(number)
    after = continued(stopped(before), "s1")
    after.turn(3)
    after.compact("edge", after.state.carried + 1, "all of it")
    shown = b"\n".join(after.edge().messages).decode()
    assert "ask 1" not in shown and 'store \\"working\\"' in shown
    third = continued(stopped(after), "s2")
    assert third.state.summaries[0].summary.referenced_sessions == ("ses", "s2")


def test_carried_turns_roll_off_like_others_and_are_rebuilt_after_a_crash_or_from_a_snapshot() -> (
    None
):
    before = started()
    for number in range(4):
        before.turn(number)
    after = continued(stopped(before))
    after.turn(4)
    assert after.again().edge() == after.edge()
    after.compact("edge", 5, "older")
    snapshots = SnapshotWriter(after.memory, every=1)
    snapshots.follow(after.log)
    newest = after.log.entries[-1].event()
    assert newest.type == "snapshot"
    again = after.again(int(str(newest.payload["window_from"])))
    assert again.edge() == after.edge() and again.state == after.state


def test_no_message_is_taken_up_and_no_turn_counted_because_of_a_copy() -> None:
    before = started()
    before.turn(1)
    after = continued(stopped(before))
    assert after.state.turn is None and after.state.turns_done == 0
    assert after.state.spent.tokens == 0 and "i1" not in after.log.taken_inbox_ids


def test_an_instruction_the_model_had_not_read_stays_behind_its_output() -> None:
    before = started()
    for number in range(30):
        before.turn(number)
    before.ask(30)
    before.use("t30", "c")
    read_rev = before.state.rev
    injected = InjectedInstruction(target="edge", turn_id="t30", text="hurry", by="user")
    before.append("edge", injected)
    output = ModelOutput(
        turn_id="t30", text="slow", model="m", finish_reason="stop", read_rev=read_rev
    )
    before.append("edge", output)
    before.answer(30)
    before.compact("edge", 80, "older")
    after = continued(stopped(before))
    assert after.edge().messages[2:] == before.edge().messages[2:]
    assert continued(stopped(after), "s2").edge().messages[2:] == before.edge().messages[2:]


def test_reminders_and_idle_instructions_are_carried() -> None:
    before = started()
    before.ask(1)
    before.append("edge", RemindersAdded(turn_id="t1", reminders=()))
    before.answer(1)
    idle = InjectedInstruction(target="edge", turn_id=None, text="be brief", by="user")
    before.append("edge", idle)
    after = continued(stopped(before))
    types = [e.event().payload.get("event_type") for e in after.log.entries]
    assert "reminded" in types and "be brief" in after.edge().messages[-1].decode()


def test_the_model_reads_what_the_user_was_told_when_the_session_was_abandoned() -> None:
    before = started()
    before.turn(1)
    before.ask(2)
    words = SessionAbandoned(dm="d", text="It crashed 4 times.", answers=("i2",))
    before.append("control", words)
    after = continued(before)
    assert orjson.loads(after.edge().messages[-1]) == {
        "role": "assistant",
        "content": "It crashed 4 times.",
    }


def test_carried_words_are_found_in_the_sessions_own_log() -> None:
    before = started()
    before.ask(1, "the seat is 12C")
    before.answer(1)
    after = continued(stopped(before))
    [hit] = search_words(after.log.entries, "12C", 5, SearchScope())
    assert "the seat is 12C" in hit.text
    assert search_words(after.log.entries, "12C", 5, SearchScope(lane="core:a")) == []


@pytest.mark.parametrize("snapshot", [None, {}, {"events": [1]}, {"events": "x"}])
def test_a_predecessor_that_cannot_be_read_is_left_out(snapshot: JsonObject | None) -> None:
    assert (
        load_carried_conversation(snapshot, "s1").copies == ()
        and load_carried_conversation(snapshot, "s1").seed == ()
    )


def test_a_session_that_continues_nothing_takes_nothing_over() -> None:
    before = started()
    before.turn(1)
    assert load_carried_conversation(log_of(before), None).copies == ()


def test_a_copy_keeps_the_time_of_the_original() -> None:
    before = started()
    before.turn(1)
    copies = load_carried_conversation(log_of(before), "s1").copies
    times = {entry.event().at for entry in before.log.entries}
    assert all(copy.event.at in times for copy in copies) and copies


def test_a_session_is_summed_up_without_what_it_copied_from_the_one_before() -> None:
    before = started()
    for number in range(3):
        before.turn(number)
    before.compact("edge", before.log.head.rev - 3, "They spoke.")
    after = continued(stopped(before))
    after.turn(3)
    material = summary_input(after.state, after.memory.window("edge"), 100_000)
    assert "ask 3" in material and "reply 3" in material
    assert not any(words in material for words in ("They spoke.", "ask 2", "reply 2"))
    first = summary_input(before.state, before.memory.window("edge"), 100_000)
    assert "They spoke." in first and "ask 2" in first


def test_a_turn_that_was_put_aside_stands_where_it_stood_before_the_stop() -> None:
    before = started()
    before.ask(1)
    before.use("t1", "c1", with_result=False)
    before.append("edge", TurnParked(turn_id="t1"))
    before.turn(2)
    before.append("edge", TurnUnparked(turn_id="t1"))
    before.result("t1", "c1")
    before.answer(1)
    after = continued(stopped(before))
    assert after.edge() == before.again().edge()
    assert after.state.parked == () and after.state.turn is None
    # also when the copies are copied
    assert continued(stopped(after), "s2").edge() == after.edge()


def test_each_conversation_goes_on_with_its_own_events_and_summary() -> None:
    before, desk = started(), "edge:desk"

    def turn(number: int, text: str) -> int:
        message = UserMessageStarted(
            turn_id=f"d{number}", inbox_id=f"m{number}", dm="desk", text=text
        )
        before.append(desk, message)
        before.think(f"d{number}", f"{text} answered", desk)
        reply = Reply(
            turn_id=f"d{number}",
            dm="desk",
            text=f"{text} answered",
            kind="answer",
            answers=f"m{number}",
        )
        return before.append(desk, reply)

    for number in range(1, 4):
        before.turn(number)
        through = turn(number, f"desk {number}")
        if number == 1:
            before.compact(desk, through, "the desk began")
            before.compact("edge", through, "the home began")
    before.ask(9, "cut short")

    def prompts(session: ToldSession) -> tuple[LanePrompt, LanePrompt]:
        home = session.assembler.edge(session.state, b"[]", lane="edge")
        return home, session.assembler.edge(session.state, b"[]", lane=desk)

    expected = prompts(before.again())
    assert prompts(before) == expected
    after = continued(stopped(before))
    for lane, before_stop in zip(prompts(after), expected, strict=True):
        # the summary has the session of the folded events, too
        assert lane.messages[2:] == before_stop.messages[2:]
    home, at_desk = (b"".join(prompt.messages).decode() for prompt in prompts(after))
    assert "the home began" in home and "ask 3" in home and "desk" not in home
    assert "the desk began" in at_desk and "desk 3" in at_desk and "ask" not in at_desk
    again = continued(stopped(after), "s2")
    assert [prompt.messages[2:] for prompt in prompts(again)] == [
        prompt.messages[2:] for prompt in expected
    ]


def test_what_tainted_one_conversation_does_not_taint_another_after_a_stop() -> None:
    before, desk = started(), "edge:desk"
    wake_up = WakeUp(schedule_id=1, summary="daily", by_agent=True)
    message = UserMessageStarted(turn_id="d1", inbox_id="m1", dm="desk", text="x", wake_up=wake_up)
    before.append(desk, message)
    job = CoreStarted(job_id="j", job_name="n", call_id="c", dm="desk", task_spec="x")
    before.append(desk, job)
    taint = continued(stopped(before)).state.taint
    assert taint.lane(desk).outside and not taint.lane("edge").outside
