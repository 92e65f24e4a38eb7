"""The pure parts of a turn: the next move, the fold."""

import pytest

from choir_agent.lanes.turn_moves import (
    CallModel,
    CancelTurn,
    EmptyAnswer,
    RunTools,
    SendAnswer,
    TurnLimitReached,
    next_turn_move,
)
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import CallStage, CallState, SessionState, TurnState
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    EventPayload,
    ModelOutput,
    Reply,
    SessionAbandoned,
    SessionResumed,
    SessionStarted,
    SessionStopped,
    ToolCall,
    ToolResultCommitted,
    UserMessageStarted,
)

CALL = ToolCall(call_id="call_1", tool="choir.fs.read", arguments="{}")


def output(text: str = "", *calls: ToolCall) -> ModelOutput:
    return ModelOutput(turn_id="t", text=text, tool_calls=calls, model="m", finish_reason="stop")


def turn(**fields: object) -> TurnState:
    return TurnState(**{"turn_id": "t", "inbox_id": "i", "dm": "d", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "move"),
    [
        (turn(), CallModel),
        (turn(steps=1, output=output("hi")), SendAnswer),
        (turn(steps=1, output=output("  ")), EmptyAnswer),
        (turn(steps=1, output=output("", CALL), calls=(CallState(CALL),)), RunTools),
        (
            turn(steps=1, output=output("", CALL), calls=(CallState(CALL, CallStage.DONE),)),
            CallModel,
        ),
        (turn(steps=40, output=output("", CALL)), TurnLimitReached),
        (turn(steps=40, output=output("made it")), SendAnswer),
        (turn(steps=1, proposed=101, calls=(CallState(CALL),)), TurnLimitReached),
        (turn(steps=1, output=output("hi"), news_rev=7), CallModel),
        (turn(steps=40, output=output("hi"), news_rev=7), TurnLimitReached),
        (turn(steps=1, output=output("hi"), cancelled=True), CancelTurn),
        (turn(steps=1, calls=(CallState(CALL),), cancelled=True), CancelTurn),
    ],
)
def test_the_next_move_follows_from_the_state_alone(state: TurnState, move: type) -> None:
    assert isinstance(next_turn_move(state, Budgets()), move)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            turn(steps=40, output=output("", CALL)),
            "40 model calls, and they are used up (setting budgets.max_steps_per_turn)",
        ),
        (
            turn(steps=1, proposed=101, calls=(CallState(CALL),)),
            "100 tool calls, and the model requested more (setting budgets.max_tool_calls_per_turn)",
        ),
    ],
)
def test_a_turn_that_reached_a_limit_says_which_in_plain_words_and_names_the_setting(
    state: TurnState, words: str
) -> None:
    move = next_turn_move(state, Budgets(max_steps_per_turn=40, max_tool_calls_per_turn=100))
    assert isinstance(move, TurnLimitReached)
    assert move.reason == f"an answer may use {words}"


def fold(*payloads: EventPayload) -> SessionState:
    state = SessionState()
    for rev, payload in enumerate(payloads, start=1):
        state = apply_event(state, CommittedEvent(rev, "", "edge", "", payload))
    return state


MSG = UserMessageStarted(turn_id="t", inbox_id="i", dm="d", text="hello")


def test_a_notice_leaves_the_turn_open_and_is_remembered() -> None:
    notice = Reply(turn_id="t", dm="d", text="wait", kind="notice")
    folded = fold(MSG, notice)
    assert folded.turn is not None
    assert folded.turn.noticed


@pytest.mark.parametrize("kind", ["answer", "error"])
def test_a_reply_that_answers_the_message_closes_the_turn(kind: str) -> None:
    reply = Reply.model_validate(
        {"turn_id": "t", "dm": "d", "text": "x", "kind": kind, "answers": "i"}
    )
    folded = fold(MSG, output("x"), reply)
    assert (folded.turn, folded.turns_done) == (None, 1)


def test_an_abandoned_turn_is_not_gone_on_with() -> None:
    assert fold(MSG, SessionAbandoned(dm="d", text="sorry", answers=("i",))).turn is None


def test_a_tail_that_begins_inside_a_turn_changes_nothing_it_does_not_know() -> None:
    result = ToolResultCommitted(turn_id="old", call_id="c", tool="x", status="success", output={})
    assert fold(result, output("old")).turn is None


def test_resuming_after_a_stop_opens_the_session_again() -> None:
    started = SessionStarted(agent_id="main", epoch=1)
    assert fold(started, SessionStopped(reason="x")).stopped
    resumed = fold(started, SessionStopped(reason="x"), SessionResumed(epoch=2))
    assert (resumed.stopped, resumed.epoch) == (False, 2)
