"""Words for what lanes do: each state, limit and end of a job has some, in both languages."""

from typing import get_args

import pytest

from choir_agent.lanes.core_states import CoreState
from choir_agent.lanes.edge_states import EdgeState
from choir_common.i18n import Message, translate
from choir_common.lane_text import limits_text, outcome_text, report_kind_text, state_text
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreOutcome, CoreReportKind

LEFT = {
    "total_session_tokens": 12_345,
    "max_tool_calls_per_session": 1,
    "max_core_jobs": 3,
    "max_steps_per_turn": 20,
    "per_job_max_steps": 2,
    "per_job_max_tool_calls": 7,
    "per_job_wall_time_ms": 600_000,
    "max_injections_per_job": 5,
}


@pytest.mark.parametrize("state", [*EdgeState, *CoreState])
def test_each_state_has_words(state: str) -> None:
    words = state_text(state)
    assert isinstance(words, Message) and "_" not in words
    assert translate(words, "de") != words


def test_each_report_and_end_of_a_job_has_words() -> None:
    for kind in get_args(CoreReportKind):
        assert isinstance(report_kind_text(kind), Message)
    for outcome in get_args(CoreOutcome):
        assert translate(outcome_text(outcome), "de") != outcome_text(outcome)


def test_what_is_left_of_the_limits_is_said_with_units() -> None:
    assert set(LEFT) <= set(Budgets.model_fields)
    assert limits_text(LEFT) == (
        "12,345 tokens, 1 tool call, 3 more jobs, 20 steps, 2 steps, 7 tool calls, 10 minutes, 5 instructions"
    )
    assert translate(limits_text({"max_steps_per_turn": 1}), "de") == "1 Schritt"
    assert limits_text({"per_job_wall_time_ms": 90_500}) == "90 seconds"
    assert limits_text({}) == ""


def test_what_a_newer_agent_reports_is_shown_as_it_is() -> None:
    assert state_text("EDGE_DREAMING") == "EDGE_DREAMING"
    assert limits_text({"max_dreams": 4}) == "max dreams 4"
