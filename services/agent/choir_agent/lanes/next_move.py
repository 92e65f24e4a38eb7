"""The next move of an open turn, decided from the folded state alone. Pure.

Called by `turn` repeatedly until the turn is closed. A turn that a crash interrupted is resumed by the same
decision.
"""

from dataclasses import dataclass

from choir_agent.log.state import CallStage, CallState, TurnState
from choir_common.wire.config import Budgets


@dataclass(frozen=True, slots=True)
class Think:
    """Call the model."""


@dataclass(frozen=True, slots=True)
class UseTools:
    """Run these calls until they have results."""

    calls: tuple[CallState, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Send the model's final text."""

    text: str


@dataclass(frozen=True, slots=True)
class OutOfBudget:
    """End the turn and give the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Speechless:
    """Report that the model ended without any text."""


@dataclass(frozen=True, slots=True)
class BreakOff:
    """End the turn because the user cancelled it."""


Move = Think | UseTools | Answer | OutOfBudget | Speechless | BreakOff


def next_move(turn: TurnState, budgets: Budgets) -> Move:
    """Return the next move of an open turn.

    Text that the model wrote before it had read an injection is not an answer: the model is called again.
    """
    output = turn.output
    if turn.cancelled:
        return BreakOff()
    # Open calls first: after a crash they are resumed before anything else.
    if any(call.stage is not CallStage.DONE for call in turn.calls):
        if turn.proposed > budgets.max_tool_calls_per_turn:
            return OutOfBudget(
                f"one answer may take {budgets.max_tool_calls_per_turn} tool calls, and it asked for "
                "more (setting budgets.max_tool_calls_per_turn)"
            )
        return UseTools(turn.calls)
    if output is not None and not output.tool_calls and not turn.news:
        return Answer(output.text) if output.text.strip() else Speechless()
    # Checked after the answer: a turn that has its answer needs no further step.
    if turn.steps >= budgets.max_steps_per_turn:
        return OutOfBudget(
            f"one answer may take {budgets.max_steps_per_turn} calls of the model, and they are used "
            "up (setting budgets.max_steps_per_turn)"
        )
    return Think()
