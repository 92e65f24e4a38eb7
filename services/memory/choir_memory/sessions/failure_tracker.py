"""Track failures of tools and how they end, event by event: pure.

A failure is resolved when a similar call of the same tool succeeds in the same turn or job: the calls in
between and that one are what helped. Otherwise it is failed (if it was retried) or abandoned when the
turn ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT, failure_text, returns_outside_text
from choir_common.wire.events import ToolCallRequested, ToolResultCommitted
from choir_memory.documents.model import Conversations
from choir_memory.sessions.rendering import render_call
from choir_memory.text.tokens import query_terms

MIN_CALL_SIMILARITY = 0.34
"""Minimum Jaccard similarity of two calls' words for the second to be a retry of the first."""
MAX_INPUT = 300
MAX_STEPS = 3
"""Calls between a failure and its end that are stored: the last ones."""
MAX_OPEN = 16
"""Failures tracked per turn."""
MAX_TURNS = 32
MAX_PENDING = 64

FailureOutcome = Literal["resolved", "failed", "abandoned"]


@dataclass(frozen=True, slots=True)
class EndedFailure:
    """A failure and how it ended."""

    tool: str
    message: str
    tried: str
    at: str
    end: FailureOutcome
    steps: tuple[str, ...]
    """The calls that led to success; empty unless it was resolved."""
    unit_rev: int
    """First revision of the unit that contains it."""
    outside: bool
    conversations: Conversations = None


@dataclass(slots=True)
class OpenFailure:
    """A failure that has not ended."""

    tool: str
    said: str
    tried: str
    at: str
    unit_rev: int
    tries: int = 1
    steps: list[str] = field(default_factory=list)
    outside: bool = False
    """Whether outsiders wrote the text of the failure, or its lane had read such text; states of older
    versions lack it."""
    conversations: Conversations = None


@dataclass(slots=True)
class FailureTrackerState:
    """Tracking state that is kept across pages of a log."""

    asked: dict[str, str] = field(default_factory=dict)
    """Input of pending calls, by call id."""
    turns: dict[str, list[OpenFailure]] = field(default_factory=dict)


class FailureTracker:
    """Tracker of failed calls, fed in order; `failures` contains the failures that ended."""

    def __init__(self, state: FailureTrackerState) -> None:
        self._state = state
        self.failures: list[EndedFailure] = []

    def ask(self, call: ToolCallRequested) -> None:
        """Record the start of a call."""
        _keep(self._state.asked, call.call_id, render_call(call)[:MAX_INPUT], MAX_PENDING)

    def answer(
        self,
        result: ToolResultCommitted,
        at: str,
        unit_rev: int,
        *,
        lane_trust: int,
        conversations: Conversations,
    ) -> None:
        """Record the result of a call, in the unit that starts at `unit_rev`.

        What an agent tried in a lane that had read a page may repeat the page: `lane_trust`.
        """
        tried = self._state.asked.pop(result.call_id, result.tool)
        message = failure_text(result.tool, result.status, result.output)
        if message is not None and result.exposure == "both":
            outside = lane_trust <= OUTSIDE_OUTPUT.trust or returns_outside_text(
                result.tool, result.output
            )
            failure = OpenFailure(
                *(result.tool, message, tried, at, unit_rev),
                outside=outside,
                conversations=conversations,
            )
            self._failed(result, failure)
        elif message is None and result.status == "success":
            self._succeeded(result, tried)

    def close(self, turn_id: str) -> None:
        """End a turn or job: its open failures stay unresolved."""
        for failure in self._state.turns.pop(turn_id, ()):
            self._end(failure, "failed" if failure.tries > 1 else "abandoned", ())

    def end_session(self) -> None:
        """End the session."""
        for turn_id in list(self._state.turns):
            self.close(turn_id)

    def _failed(self, result: ToolResultCommitted, failure: OpenFailure) -> None:
        turns = self._state.turns
        open_failures = turns.get(result.turn_id, [])
        for earlier in open_failures:
            if earlier.tool == failure.tool and _alike(earlier.tried, failure.tried):
                # keep the latest attempt; what was done before it did not help
                earlier.said, earlier.tried, earlier.steps = failure.said, failure.tried, []
                earlier.outside = earlier.outside or failure.outside
                earlier.tries += 1
                return
        if turns.get(result.turn_id) is None:
            for turn_id in list(turns)[: max(0, len(turns) + 1 - MAX_TURNS)]:
                self.close(turn_id)
            turns[result.turn_id] = open_failures
        if len(open_failures) < MAX_OPEN:
            open_failures.append(failure)

    def _succeeded(self, result: ToolResultCommitted, tried: str) -> None:
        open_failures = self._state.turns.get(result.turn_id, [])
        for failure in list(open_failures):
            failure.steps = [*failure.steps, tried][-MAX_STEPS:]
            if failure.tool == result.tool and _alike(failure.tried, tried):
                open_failures.remove(failure)
                self._end(failure, "resolved", failure.steps)

    def _end(self, failure: OpenFailure, end: FailureOutcome, steps: Sequence[str]) -> None:
        self.failures.append(
            EndedFailure(
                failure.tool, failure.said, failure.tried, failure.at, end, tuple(steps),
                failure.unit_rev, failure.outside or returns_outside_text(failure.tool, {}),
                failure.conversations,
            )
        )  # fmt: skip


def _alike(first: str, second: str) -> bool:
    words, other_words = (frozenset(query_terms(_without_tool(text))) for text in (first, second))
    union = len(words | other_words)
    return not union or len(words & other_words) / union >= MIN_CALL_SIMILARITY


def _without_tool(line: str) -> str:
    return line.partition(" ")[2]


def _keep(table: dict[str, str], key: str, value: str, most: int) -> None:
    table[key] = value
    while len(table) > most:
        del table[next(iter(table))]
