"""Budgets: hard limits for sessions, turns and core jobs.

Part of `config.json`. Control computes an agent's limits and the agent enforces them.
"""

from pydantic import Field

from choir_common.wire.model import Wire


class Budgets(Wire):
    """Hard limits of every agent that has none of its own."""

    max_steps_per_turn: int = Field(default=40, ge=1)
    """Model calls in one turn; a turn with forty is probably a loop."""
    max_tool_calls_per_turn: int = Field(default=100, ge=1)
    """Tool calls in one turn of the edge lane."""
    max_core_jobs: int = Field(default=8, ge=0)
    """Concurrent core jobs; each is a model conversation of its own."""
    max_core_jobs_per_message: int = Field(default=24, ge=0)
    """Core jobs between two messages of the user; it stops chains of jobs whose reports start jobs."""
    total_session_tokens: int = Field(default=20_000_000, ge=1)
    """Prompt and completion tokens of all calls in a session; the user can grant the same amount again."""
    max_tool_calls_per_session: int = Field(default=20_000, ge=1)
    """Tool calls of all lanes in a session; the user can grant the same amount again."""
    per_job_max_steps: int = Field(default=100, ge=1)
    """Model calls in one core job."""
    per_job_max_tool_calls: int = Field(default=300, ge=1)
    """Tool calls in one core job."""
    per_job_wall_time_ms: int = Field(default=3_600_000, ge=1)
    """Maximum duration of a core job, including waiting; default one hour."""
    max_injections_per_job: int = Field(default=20, ge=0)
    """Injected instructions that one core job accepts."""
    skill_step_retries: int = Field(default=2, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition."""

    def overridden(self, own: "AgentBudgets") -> "Budgets":
        """Return these budgets with the values that the agent sets itself."""
        return self.model_copy(update=own.model_dump(exclude_none=True))


class AgentBudgets(Wire):
    """Hard limits of one agent; null: the value in `budgets`."""

    max_steps_per_turn: int | None = Field(default=None, ge=1)
    """Model calls in one turn of this agent."""
    max_tool_calls_per_turn: int | None = Field(default=None, ge=1)
    """Tool calls in one turn of its edge lane."""
    max_core_jobs: int | None = Field(default=None, ge=0)
    """Its concurrent core jobs."""
    max_core_jobs_per_message: int | None = Field(default=None, ge=0)
    """Its core jobs between two messages of the user."""
    total_session_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of all calls in one of its sessions."""
    max_tool_calls_per_session: int | None = Field(default=None, ge=1)
    """Tool calls of all lanes in one of its sessions."""
    per_job_max_steps: int | None = Field(default=None, ge=1)
    """Model calls in one of its core jobs."""
    per_job_max_tool_calls: int | None = Field(default=None, ge=1)
    """Tool calls in one of its core jobs."""
    per_job_wall_time_ms: int | None = Field(default=None, ge=1)
    """Maximum duration of one of its core jobs, including waiting."""
    max_injections_per_job: int | None = Field(default=None, ge=0)
    """Injected instructions that one of its core jobs accepts."""
    skill_step_retries: int | None = Field(default=None, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition."""
