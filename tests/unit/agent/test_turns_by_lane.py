"""Each conversation of a session has an open turn of its own, and crashes are counted for each turn."""

from datetime import UTC, datetime

import pytest

from choir_agent.budgets.limits import TOKENS, core_job_refusal, exhausted_event, parse_grant
from choir_agent.budgets.money import parse_money_grant
from choir_agent.lanes.turn_moves import MAX_RESUMES, CallModel, TurnLimitReached, next_turn_move
from choir_agent.log.session_state import (
    JobState,
    SessionState,
    TurnState,
    dump_state,
    load_state,
    state_digest,
)
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    BudgetExhausted,
    Cancelled,
    CoreReported,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    Reply,
    SessionAbandoned,
    SessionResumed,
    SessionSuspended,
    SkillStarted,
    ToolCall,
    ToolCallRequested,
    TurnParked,
    TurnUnparked,
    UserMessageStarted,
)
from choir_common.wire.provenance import LaneTaint
from choir_common.wire.schedules import WakeUp
from tests.unit.agent.told_session import TOOL, ToldSession

DESK = "edge:desk"
STATE_OF_ONE_CONVERSATION = "8db638b451a1f03a04eab712663c3d47bf6bc9200fa5ac1c07876c2d78cf8e4d"
"""Digest of the state below, written by the version before several conversations."""


def ask_desk(session: ToldSession, number: int, wake_up: WakeUp | None = None) -> None:
    message = UserMessageStarted(
        turn_id=f"d{number}", inbox_id=f"m{number}", dm="desk", text="x", wake_up=wake_up
    )
    session.append(DESK, message)


def answer_desk(session: ToldSession, number: int) -> None:
    session.think(f"d{number}", "done", DESK)
    reply = Reply(turn_id=f"d{number}", dm="desk", text="done", kind="answer", answers=f"m{number}")
    session.append(DESK, reply)


def two_turns() -> ToldSession:
    """Return a session with an open turn in each of two conversations."""
    session = ToldSession()
    session.ask(1)
    ask_desk(session, 1)
    return session


def open_turn(session: ToldSession, lane: str) -> TurnState:
    turn = session.state.turn_in(lane)
    assert turn is not None
    return turn


def test_events_of_a_turn_change_no_turn_of_another_conversation() -> None:
    session = two_turns()
    before = open_turn(session, "edge")
    session.use("d1", "c1", DESK)
    told = InjectedInstruction(target=DESK, turn_id="d1", text="x", by="user")
    session.append(DESK, told)
    session.append(DESK, Cancelled(target=DESK, turn_id="d1", by="user"))
    assert open_turn(session, "edge") == before
    assert (open_turn(session, DESK).steps, open_turn(session, DESK).cancelled) == (1, True)


def test_a_reply_closes_the_turn_of_its_own_conversation() -> None:
    session = two_turns()
    answer_desk(session, 1)
    assert session.state.turn_in(DESK) is None
    assert open_turn(session, "edge").turn_id == "t1"
    assert session.state.has_open_work
    session.answer(1)
    assert not session.state.has_open_work
    assert session.state.turns_done == 2


def test_a_reply_without_a_turn_closes_the_turn_of_its_own_conversation() -> None:
    session = two_turns()
    reply = Reply(turn_id=None, dm="desk", text="done", kind="answer", answers="m1")
    session.append(DESK, reply)
    assert session.state.turn_in(DESK) is None
    assert open_turn(session, "edge").turn_id == "t1"


def test_a_turn_and_its_skill_are_parked_in_their_own_conversation() -> None:
    session = two_turns()
    session.append(DESK, SkillStarted(turn_id="d1", skill="tea", state="boil", call_id="c0"))
    session.append("edge", SkillStarted(turn_id="t1", skill="tea", state="boil", call_id="c1"))
    session.append(DESK, TurnParked(turn_id="d1"))
    assert session.state.skill_of("edge") is not None
    assert session.state.skill_of(DESK) is None
    assert session.state.parked_skill_of("edge") is None
    assert session.state.parked_skill_of(DESK) is not None
    assert [turn.turn_id for turn in session.state.parked_in(DESK)] == ["d1"]
    assert session.state.parked_in("edge") == ()
    session.append(DESK, TurnUnparked(turn_id="d1"))
    assert open_turn(session, DESK).turn_id == "d1"
    assert session.state.skill_of(DESK) is not None
    assert open_turn(session, "edge").turn_id == "t1"


def test_the_windows_of_conversations_are_separate() -> None:
    session = two_turns()
    session.use("d1", "c1", DESK)
    home, desk = session.memory.window("edge"), session.memory.window(DESK)
    assert home is not None and [turn.turn_id for turn in home.turns] == ["t1"]
    assert desk is not None and [turn.turn_id for turn in desk.turns] == ["d1"]
    assert session.again().memory.lanes() == ("edge", DESK)


def test_a_prompt_has_the_events_and_jobs_of_its_own_conversation_only() -> None:
    session = two_turns()
    session.start_job("home")
    job = CoreStarted(job_id="j", job_name="there", call_id="c", dm="desk", task_spec="dig")
    session.append(DESK, job)
    session.think("d1", "at the desk", DESK)
    home = b"".join(session.edge().messages).decode()
    desk = b"".join(session.assembler.edge(session.state, b"[]", lane=DESK).messages).decode()
    assert "ask 1" in home and "- home" in home
    assert "at the desk" not in home and "- there" not in home
    assert "at the desk" in desk and "- there" in desk
    assert "ask 1" not in desk and "- home" not in desk


def test_a_message_is_dated_by_the_one_before_it_in_its_own_conversation() -> None:
    session = two_turns()
    home, desk = session.state.last_message_in("edge"), session.state.last_message_in(DESK)
    assert home and desk and session.state.last_message_in("edge:phone") == ""
    answer_desk(session, 1)
    assert session.state.last_message_in("edge") == home
    assert load_state(dump_state(session.state)).last_message_in(DESK) >= desk


def test_only_a_user_who_was_asked_extends_a_budget() -> None:
    session, now = two_turns(), datetime.now(UTC)
    budgets = Budgets(total_session_tokens=1_000)

    def grants(lane: str) -> bool:
        return parse_grant("yes", session.state, budgets, lane=lane) is not None

    def ask_in(lane: str) -> None:
        event = exhausted_event(TOKENS, session.state, budgets, dm="x", lane=lane)
        assert event is not None
        session.append(lane, event)
        assert exhausted_event(TOKENS, session.state, budgets, dm="x", lane=lane) is None

    ask_in(DESK)
    assert (grants(DESK), grants("edge")) == (True, False)
    assert load_state(dump_state(session.state)) == session.state
    ask_in("edge")
    assert (grants(DESK), grants("edge"), grants("edge:phone")) == (True, True, False)
    grant = parse_grant("yes", session.state, budgets, lane=DESK)
    assert grant is not None
    session.append(DESK, grant.event("m2"))
    assert session.state.exhausted is None
    asked = BudgetExhausted(budget="usd_per_day", limit=1, dm="x")
    session.append(DESK, asked)
    assert parse_money_grant("yes", session.state, now, lane="edge") is None
    assert parse_money_grant("yes", session.state, now, lane=DESK) is not None


def test_jobs_without_a_message_between_are_limited_in_each_conversation() -> None:
    session, budgets = two_turns(), Budgets(max_core_jobs_per_message=1, max_core_jobs=9)
    job = CoreStarted(job_id="j", job_name="there", call_id="c", dm="desk", task_spec="dig")
    session.append(DESK, job)
    session.ask(2)
    assert core_job_refusal(session.state, budgets, lane="edge") is None
    assert core_job_refusal(session.state, budgets, lane=DESK) is not None
    ask_desk(session, 2)
    assert core_job_refusal(session.state, budgets, lane=DESK) is None


def test_what_a_job_reports_is_due_in_the_conversation_that_started_it() -> None:
    session = two_turns()
    session.append(DESK, CoreStarted(job_id="j", job_name="n", call_id="c", dm="x", task_spec="x"))
    session.append("core:n", CoreStopped(job_id="j", job_name="n", outcome="completed"))
    assert session.state.reports_in("edge") == ()
    assert [due.subject for due in session.state.reports_in(DESK)] == ["j"]
    assert load_state(dump_state(session.state)) == session.state
    assert session.state.open_edges == {"edge", DESK}


def test_a_job_gives_its_taint_to_the_conversation_that_started_it() -> None:
    session = two_turns()
    ask_desk(session, 2, WakeUp(schedule_id=1, summary="daily", by_agent=True))
    job = CoreStarted(job_id="j", job_name="dig", call_id="c", dm="desk", task_spec="dig")
    session.append(DESK, job)
    assert [job.edge for job in session.state.jobs] == [DESK]
    report = CoreReported(job_id="j", job_name="dig", kind="progress", body={})
    session.append("core:dig", report)
    session.append("core:dig", CoreStopped(job_id="j", job_name="dig", outcome="completed"))
    assert session.state.taint.lane("edge") == LaneTaint()
    assert session.state.taint.lane(DESK).outside


def crash(session: ToldSession, times: int) -> None:
    for _ in range(times):
        session.append("session", SessionResumed(epoch=session.state.epoch + 1))


def test_a_turn_that_crashes_the_agent_ends_although_other_conversations_go_on() -> None:
    session = two_turns()
    for number in range(2, MAX_RESUMES + 2):
        session.answer(number - 1)
        session.ask(number)
        assert isinstance(next_turn_move(open_turn(session, DESK), Budgets()), CallModel)
        crash(session, 1)
    move = next_turn_move(open_turn(session, DESK), Budgets())
    assert isinstance(move, TurnLimitReached) and "3 times" in move.reason
    assert isinstance(next_turn_move(open_turn(session, "edge"), Budgets()), CallModel)
    assert open_turn(session, "edge").resumes == 1


def test_a_turn_that_has_its_answer_sends_it_however_often_the_agent_crashed() -> None:
    session = two_turns()
    crash(session, MAX_RESUMES)
    session.think("d1", "done", DESK)
    assert not isinstance(next_turn_move(open_turn(session, DESK), Budgets()), TurnLimitReached)


def test_stops_and_turns_that_wait_for_a_human_count_no_crashes() -> None:
    session = two_turns()
    session.append("session", SessionSuspended(reason="asked"))
    crash(session, 1)
    assert [turn.resumes for turn in session.state.turns] == [0, 0]
    call = ToolCall(call_id="c1", tool=TOOL, arguments="{}")
    session.think("d1", "", DESK, (call,))
    asked = ToolCallRequested(turn_id="d1", call_id="c1", tool=TOOL, input={})
    session.append(DESK, asked)
    crash(session, 1)
    assert (open_turn(session, "edge").resumes, open_turn(session, DESK).resumes) == (1, 0)


def test_with_one_conversation_control_alone_counts_the_crashes() -> None:
    session = ToldSession()
    session.ask(1)
    crash(session, 2 * MAX_RESUMES)
    assert open_turn(session, "edge").resumes == 0


def test_an_abandoned_session_has_no_turns() -> None:
    session = two_turns()
    session.append("control", SessionAbandoned(dm="d", text="sorry", answers=("i1", "m1")))
    assert not session.state.turns


def test_the_snapshot_of_one_conversation_is_that_of_versions_that_knew_no_other() -> None:
    started = CoreStarted(job_id="j", job_name="n", call_id="c", dm="d", task_spec="x")
    job = JobState(turn_id="j", dm="d", briefing=started, started_at="2026")
    state = SessionState(
        turns=(TurnState(turn_id="t", dm="d"),),
        parked=(TurnState(turn_id="u", dm="d"),),
        jobs=(job,),
    )
    assert state_digest(state) == STATE_OF_ONE_CONVERSATION
    assert load_state(dump_state(state)) == state


@pytest.mark.parametrize("resumes", [0, 2])
def test_a_snapshot_keeps_the_turns_of_all_conversations(resumes: int) -> None:
    session = two_turns()
    crash(session, resumes)
    session.append(DESK, CoreStarted(job_id="j", job_name="n", call_id="c", dm="x", task_spec="x"))
    session.append(DESK, TurnParked(turn_id="d1"))
    ask_desk(session, 2)
    assert load_state(dump_state(session.state)) == session.state
    assert state_digest(session.again().state) == state_digest(session.state)
