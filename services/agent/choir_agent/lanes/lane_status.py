"""Status reports of the lanes: state, step of the skill, remaining budgets, failure of the model."""

from datetime import datetime, timedelta
from typing import Protocol

from choir_agent.budgets.limits import CALLS, TOKENS, remaining_of
from choir_agent.lanes.core_job_moves import time_left
from choir_agent.log.session_state import JobState, SessionState, SessionStateSource
from choir_agent.models.failure_messages import OutageTracker
from choir_agent.models.lane_models import model_for_lane, model_name_for_lane
from choir_agent.settings import SettingsSource
from choir_agent.tools.registry import ToolRegistry
from choir_common.clock import Clock
from choir_common.lanes import is_edge, is_home
from choir_common.wire.config import AgentSettings, Budgets
from choir_common.wire.rpc import (
    MAX_JOB_TOOLS,
    AwaitedLock,
    HarnessStatus,
    McpServerStatus,
    ModelInUse,
    StatusRequest,
)


class LaneStateRecorder(Protocol):
    """Receiver of the lanes' states, for reports to control."""

    def record_state(self, lane: str, state: str, *, final: bool = False) -> None: ...


class LockWaits(Protocol):
    """Source of the locks that the calls of a lane wait for."""

    def waits_of(self, owner: str) -> tuple[AwaitedLock, ...]: ...


class McpServerSource(Protocol):
    """Source of the states of the MCP servers."""

    def statuses(self) -> tuple[McpServerStatus, ...]: ...


class HarnessSource(Protocol):
    """Source of the states of the harnesses."""

    def statuses(self) -> tuple[HarnessStatus, ...]: ...


class LaneStatusDescriber:
    """Builder of status reports from the log and the current settings."""

    def __init__(
        self,
        *,
        session: SessionStateSource,
        settings: SettingsSource,
        outages: OutageTracker,
        locks: LockWaits,
        mcp_servers: McpServerSource,
        harnesses: HarnessSource,
        tools: ToolRegistry,
        clock: Clock,
    ) -> None:
        self._tools = tools
        self._mcp_servers, self._harnesses = mcp_servers, harnesses
        self._session = session
        self._settings = settings
        self._locks = locks
        self._outages = outages
        self._clock = clock

    def describe(self, lane: str, state: str) -> StatusRequest:
        """Return the complete report of a lane that is in this state."""
        settings, session = self._settings.current().settings, self._session.state
        budgets, skill = settings.budgets, session.skill_of(lane)
        return StatusRequest(
            lane=lane,
            state=state,
            skill=skill.skill if skill is not None else None,
            step=skill.state if skill is not None else None,
            budget_remaining=_edge_left(lane, session, budgets)
            if is_edge(lane)
            else _job_left(lane, session, budgets, self._clock.now()),
            model_failure=self._outages.of(model_name_for_lane(settings, lane)),
            model=_model_in_use(settings, lane),
            lock_waits=self._locks.waits_of(lane),
            mcp_servers=self._mcp_servers.statuses() if is_home(lane) else (),
            harnesses=self._harnesses.statuses() if is_home(lane) else (),
            job_tools=self._job_tools() if is_home(lane) else (),
        )

    def _job_tools(self) -> tuple[str, ...]:
        """Return the tools of core jobs; none if they are too many, so that only the agent checks names."""
        names = self._tools.tools_of_jobs()
        return names if len(names) <= MAX_JOB_TOOLS else ()


def _model_in_use(settings: AgentSettings, lane: str) -> ModelInUse | None:
    model = model_for_lane(settings, lane)
    if model.context_window is None:
        return None
    return ModelInUse(
        name=model_name_for_lane(settings, lane),
        model=model.model,
        context_window=model.context_window,
        is_small=model.has_small_context,
    )


def _edge_left(lane: str, state: SessionState, budgets: Budgets) -> dict[str, int]:
    remaining = {
        TOKENS: remaining_of(TOKENS, state, budgets),
        CALLS: remaining_of(CALLS, state, budgets),
        "max_core_jobs": max(0, budgets.max_core_jobs - len(state.jobs)),
    }
    turn = state.turn_in(lane)
    if turn is not None:
        remaining["max_steps_per_turn"] = max(0, budgets.max_steps_per_turn - turn.steps)
    return remaining


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
