"""Fold events into the state of a session: pure, and total over every prefix and every tail of a log.

Called by `session_log` for each event. Lanes decide what to do next from the state alone, so a fresh turn
and one that a crash interrupted go the same way.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

import orjson

from choir_common.wire.events import (
    EventPayload,
    MemoryWriteCommitted,
    ModelOutput,
    Reply,
    SessionAbandoned,
    SessionResumed,
    SessionStarted,
    SessionStopped,
    ToolCall,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
    UserMsg,
)


class CallStage(StrEnum):
    """How far a tool call has come; only the arbiter moves it, by appending."""

    PROPOSED = "proposed"
    REQUESTED = "requested"
    COMMITTED = "committed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CallState:
    """A tool call of the newest model output."""

    call: ToolCall
    stage: CallStage = CallStage.PROPOSED


@dataclass(frozen=True, slots=True)
class TurnState:
    """A user's message that is not answered yet, and how far its answer has come."""

    turn_id: str
    inbox_id: str
    dm: str
    steps: int = 0
    """Model outputs so far."""
    proposed: int = 0
    """Tool calls proposed so far."""
    output: ModelOutput | None = None
    """The newest model output."""
    calls: tuple[CallState, ...] = ()
    """The calls of that output."""
    noticed: bool = False
    """The user was already told to wait."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """Everything a session is, apart from its history."""

    rev: int = 0
    epoch: int = 0
    stopped: bool = False
    turns_done: int = 0
    turn: TurnState | None = None


def step(state: SessionState, rev: int, payload: EventPayload) -> SessionState:
    """Return the state after one more event."""
    state = replace(state, rev=rev)
    match payload:
        case SessionStarted() | SessionResumed():
            return replace(state, epoch=payload.epoch, stopped=False)
        case SessionStopped():
            return replace(state, stopped=True)
        case UserMsg():
            turn = TurnState(payload.turn_id, payload.inbox_id, payload.dm)
            return replace(state, turn=turn)
        case SessionAbandoned():
            return replace(state, turn=None)
        case Reply():
            return _after_reply(state, payload)
        case ModelOutput() | ToolCallRequested() | ToolCallCommitted() | ToolResultCommitted():
            # an event of a turn that began before the tail we were given changes nothing
            if state.turn is None or state.turn.turn_id != payload.turn_id:
                return state
            return replace(state, turn=_in_turn(state.turn, payload))
        case MemoryWriteCommitted():
            return state
        case _:
            assert_never(payload)


def _after_reply(state: SessionState, reply: Reply) -> SessionState:
    turn = state.turn
    if turn is None:
        return state
    if reply.answers == turn.inbox_id:
        return replace(state, turn=None, turns_done=state.turns_done + 1)
    if reply.kind == "notice" and reply.turn_id == turn.turn_id:
        return replace(state, turn=replace(turn, noticed=True))
    return state


def _in_turn(
    turn: TurnState,
    payload: ModelOutput | ToolCallRequested | ToolCallCommitted | ToolResultCommitted,
) -> TurnState:
    match payload:
        case ModelOutput():
            return replace(
                turn,
                steps=turn.steps + 1,
                proposed=turn.proposed + len(payload.tool_calls),
                output=payload,
                calls=tuple(CallState(call) for call in payload.tool_calls),
            )
        case ToolCallRequested():
            return _moved(turn, payload.call_id, CallStage.REQUESTED)
        case ToolCallCommitted():
            return _moved(turn, payload.call_id, CallStage.COMMITTED)
        case ToolResultCommitted():
            return _moved(turn, payload.call_id, CallStage.DONE)
        case _:
            assert_never(payload)


def _moved(turn: TurnState, call_id: str, stage: CallStage) -> TurnState:
    calls = tuple(
        CallState(state.call, stage) if state.call.call_id == call_id else state
        for state in turn.calls
    )
    return replace(turn, calls=calls)


def digest_of(state: SessionState) -> str:
    """Return a hash of the state: equal logs give equal hashes (GUARANTEES, 3)."""
    turn = state.turn
    open_turn = turn and {
        "turn_id": turn.turn_id,
        "inbox_id": turn.inbox_id,
        "dm": turn.dm,
        "steps": turn.steps,
        "proposed": turn.proposed,
        "noticed": turn.noticed,
        "calls": [[call.call.call_id, call.stage.value] for call in turn.calls],
        "output": turn.output and turn.output.model_dump(mode="json"),
    }
    body = {
        "rev": state.rev,
        "epoch": state.epoch,
        "stopped": state.stopped,
        "turns_done": state.turns_done,
        "turn": open_turn,
    }
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
