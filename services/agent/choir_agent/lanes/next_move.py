"""Decide what an open turn needs next, from the log's state alone: pure.

Called by `turn` again and again until the turn is answered; a turn that a crash cut off anywhere is
gone on with by the very same decision.
"""

from dataclasses import dataclass

from choir_agent.log.state import CallStage, CallState, TurnState
from choir_common.wire.config import Budgets


@dataclass(frozen=True, slots=True)
class Think:
    """Ask the model."""


@dataclass(frozen=True, slots=True)
class UseTools:
    """Take these calls to their results."""

    calls: tuple[CallState, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Say the model's final words."""

    text: str


@dataclass(frozen=True, slots=True)
class OutOfBudget:
    """Stop here and say why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Speechless:
    """The model ended without a word; say so."""


@dataclass(frozen=True, slots=True)
class BreakOff:
    """The user wants it no more."""


Move = Think | UseTools | Answer | OutOfBudget | Speechless | BreakOff


def next_move(turn: TurnState, budgets: Budgets) -> Move:
    """Return the next move of an open turn.

    Words that the model said before it had read an injection are no answer yet: it is asked again.
    """
    output = turn.output
    if turn.cancelled:
        return BreakOff()
    if any(call.stage is not CallStage.DONE for call in turn.calls):
        if turn.proposed > budgets.max_tool_calls_per_turn:
            return OutOfBudget(
                f"one answer may take {budgets.max_tool_calls_per_turn} tool calls, and it asked for "
                "more (setting budgets.max_tool_calls_per_turn)"
            )
        return UseTools(turn.calls)
    if output is not None and not output.tool_calls and not turn.news:
        return Answer(output.text) if output.text.strip() else Speechless()
    if turn.steps >= budgets.max_steps_per_turn:
        return OutOfBudget(
            f"one answer may take {budgets.max_steps_per_turn} calls of the model, and they are used "
            "up (setting budgets.max_steps_per_turn)"
        )
    return Think()
