"""Status report of a lane: its state, its skill's step and its remaining budgets. Pure.

Called by `app` for REPORT_STATUS.
"""

from datetime import datetime, timedelta

from choir_agent.budgets.limits import CALLS, TOKENS, remaining_of
from choir_agent.lanes.core_job_moves import time_left
from choir_agent.log.session_state import EDGE_LANE, JobState, SessionState
from choir_common.wire.config import Budgets
from choir_common.wire.rpc import ModelFailure, StatusReport


def lane_status(
    lane: str,
    lane_state: str,
    state: SessionState,
    budgets: Budgets,
    now: datetime,
    model_failure: ModelFailure | None = None,
) -> StatusReport:
    """Return the status report of a lane; `now` is timezone-aware UTC."""
    skill = state.skill_of(lane)
    return StatusReport(
        lane=lane,
        state=lane_state,
        skill=skill.skill if skill is not None else None,
        step=skill.state if skill is not None else None,
        budget_remaining=_edge_left(state, budgets)
        if lane == EDGE_LANE
        else _job_left(lane, state, budgets, now),
        model_failure=model_failure,
    )


def _edge_left(state: SessionState, budgets: Budgets) -> dict[str, int]:
    left = {
        TOKENS: remaining_of(TOKENS, state, budgets),
        CALLS: remaining_of(CALLS, state, budgets),
        "max_core_jobs": max(0, budgets.max_core_jobs - len(state.jobs)),
    }
    if state.turn is not None:
        left["max_steps_per_turn"] = max(0, budgets.max_steps_per_turn - state.turn.steps)
    return left


def _job_left(lane: str, state: SessionState, budgets: Budgets, now: datetime) -> dict[str, int]:
    job: JobState | None = next((job for job in state.jobs if job.lane == lane), None)
    if job is None:
        return {}
    wall = max(timedelta(), time_left(job, budgets, now))
    return {
        "per_job_max_steps": max(0, budgets.per_job_max_steps - job.steps),
        "per_job_max_tool_calls": max(0, budgets.per_job_max_tool_calls - job.proposed),
        "per_job_wall_time_ms": int(wall / timedelta(milliseconds=1)),
        "max_injections_per_job": max(0, budgets.max_injections_per_job - job.injections),
    }
