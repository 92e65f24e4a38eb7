"""The next move of an open turn, decided from the folded state alone. Pure.

A turn that a crash interrupted is resumed by the same decision.
"""

from dataclasses import dataclass

from choir_agent.log.session_state import CallStage, CallState, TurnState
from choir_common.wire.config import Budgets
from choir_common.wire.events import UserMessageStarted

MAX_RESUMES = 3
"""Crashes after which a turn is not tried again."""


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls until they have results."""

    calls: tuple[CallState, ...]


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Send the model's final text."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnLimitReached:
    """End the turn and give the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class EmptyAnswer:
    """Report that the model ended without any text."""


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """End the turn and say why the voice message has no transcript."""

    problem: str


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """End the turn because the user cancelled it."""


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start the core job of a schedule; that ends the turn."""

    message: UserMessageStarted


TurnMove = (
    CallModel
    | RunTools
    | SendAnswer
    | TurnLimitReached
    | EmptyAnswer
    | NotUnderstood
    | CancelTurn
    | StartJob
)


def next_turn_move(turn: TurnState, budgets: Budgets) -> TurnMove:
    """Return the next move of an open turn.

    Text that the model wrote before it had read an injection is not an answer: the model is called again.
    """
    output = turn.output
    if turn.cancelled:
        return CancelTurn()
    if (crashes := check_crashes(turn)) is not None:
        return crashes
    if turn.scheduled is not None:
        return StartJob(turn.scheduled)
    if turn.voice_problem:
        return NotUnderstood(turn.voice_problem)
    # Open calls first: after a crash they are resumed before anything else.
    if any(call.stage is not CallStage.DONE for call in turn.calls):
        if turn.proposed > budgets.max_tool_calls_per_turn:
            return TurnLimitReached(
                f"an answer may use {budgets.max_tool_calls_per_turn} tool calls, and the model "
                "requested more (setting budgets.max_tool_calls_per_turn)"
            )
        return RunTools(turn.calls)
    if output is not None and _has_answer(turn):
        return SendAnswer(output.text) if output.text.strip() else EmptyAnswer()
    # Checked after the answer: a turn that has its answer needs no further step.
    if turn.steps >= budgets.max_steps_per_turn:
        return TurnLimitReached(
            f"an answer may use {budgets.max_steps_per_turn} model calls, and they are used up "
            "(setting budgets.max_steps_per_turn)"
        )
    return CallModel()


def check_crashes(turn: TurnState) -> TurnLimitReached | None:
    """Return the end of a turn during which the agent crashed too often; None if it goes on."""
    if turn.resumes < MAX_RESUMES or _has_answer(turn):
        return None
    return TurnLimitReached(f"I crashed {turn.resumes} times while I worked on this")


def _has_answer(turn: TurnState) -> bool:
    output = turn.output
    return output is not None and not output.tool_calls and not turn.news
