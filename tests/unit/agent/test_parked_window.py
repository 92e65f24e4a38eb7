"""A turn that is put aside stays in the prompt, and is last once the model resumes it."""

import orjson

from choir_agent.log.session_state import dump_state, load_state, state_digest
from choir_common.wire.events import (
    CoreReported,
    ReportBegun,
    SkillStarted,
    TurnParked,
    TurnUnparked,
)
from tests.unit.agent.told_session import ToldSession


def parked() -> ToldSession:
    session = ToldSession()
    session.ask(1, "open the door")
    session.use("t1", "c1", with_result=False)
    session.append("edge", TurnParked(turn_id="t1"))
    return session


def roles(session: ToldSession) -> list[str]:
    return [orjson.loads(message)["role"] for message in session.edge().messages[1:]]


def test_a_parked_turn_is_open_and_the_lane_is_free() -> None:
    session = parked()
    assert session.state.turn is None and session.state.has_open_work
    session.turn(2)
    assert session.state.turn is None and [t.turn_id for t in session.state.parked] == ["t1"]
    shown = b"\n".join(session.edge().messages).decode()
    assert "a human has not decided yet" in shown
    assert roles(session) == ["user", "assistant", "tool", "user", "assistant"]


def test_a_turn_that_goes_on_stands_last_with_its_result() -> None:
    session = parked()
    session.turn(2)
    session.append("edge", TurnUnparked(turn_id="t1"))
    session.result("t1", "c1")
    assert session.state.turn is not None and session.state.turn.turn_id == "t1"
    assert roles(session) == ["user", "assistant", "user", "assistant", "tool"]
    assert "open the door" in session.edge().messages[-3].decode()
    assert session.again().edge() == session.edge()
    assert state_digest(session.again().state) == state_digest(session.state)


def test_a_parked_turn_never_rolls_off() -> None:
    session = parked()
    for number in range(2, 6):
        session.turn(number)
    session.compact("edge", session.state.rev, "all of it")
    session.append("edge", TurnUnparked(turn_id="t1"))
    shown = b"\n".join(session.edge().messages).decode()
    assert "open the door" in shown and "ask 2" not in shown


def test_a_skill_is_put_aside_with_its_turn_and_comes_back_with_it() -> None:
    session = ToldSession()
    session.ask(1)
    session.append("edge", SkillStarted(turn_id="t1", skill="tea", state="boil", call_id="c0"))
    skill = session.state.skill_of("edge")
    session.append("edge", TurnParked(turn_id="t1"))
    assert session.state.skill_of("edge") is None and session.state.parked_skill_of("edge") == skill
    session.turn(2)
    session.append("edge", TurnUnparked(turn_id="t1"))
    assert session.state.skill_of("edge") == skill and session.state.parked_skill_of("edge") is None
    assert load_state(dump_state(session.state)) == session.state


def test_what_a_parked_report_tells_of_is_not_reported_twice_and_a_new_need_is() -> None:
    session = ToldSession()
    session.start_job("fix")

    def needs(what: str) -> CoreReported:
        return CoreReported(
            job_id="job_fix", job_name="fix", kind="need_info", body={"missing": what}
        )

    session.append("core:fix", needs("a name"))
    [due] = session.state.unstarted_reports
    begun = ReportBegun(turn_id="r1", dm="d", subject=due.subject, brief=due.brief)
    session.append("edge", begun)
    session.append("edge", TurnParked(turn_id="r1"))
    assert session.state.unstarted_reports == () and session.state.due == (due,)
    session.append("core:fix", needs("a date"))
    [later] = session.state.unstarted_reports
    assert "a date" in later.brief and session.state.due == (due, later)
