"""Budgets: hard stops for sessions, turns and core jobs (spec 7.6).

Part of `config.json`; control computes what holds for an agent, and the agent keeps to it.
"""

from pydantic import Field

from choir_common.wire.model import Wire


class Budgets(Wire):
    """Hard stops of every agent that has none of its own (spec 7.6)."""

    max_steps_per_turn: int = Field(default=40, ge=1)
    """Model calls in one turn; a turn of forty is a loop, not work."""
    max_tool_calls_per_turn: int = Field(default=100, ge=1)
    """Tool calls in one turn of the edge lane."""
    max_core_jobs: int = Field(default=8, ge=0)
    """Core jobs at the same time; each is a model conversation of its own."""
    max_core_jobs_per_message: int = Field(default=24, ge=0)
    """Core jobs from one message of the user's to the next: a job whose report starts jobs, and so on."""
    total_session_tokens: int = Field(default=20_000_000, ge=1)
    """Prompt and completion of every call of a session; the user can grant as much again."""
    max_tool_calls_per_session: int = Field(default=20_000, ge=1)
    """Tool calls of all lanes of a session; the user can grant as much again."""
    per_job_max_steps: int = Field(default=100, ge=1)
    """Model calls in one core job."""
    per_job_max_tool_calls: int = Field(default=300, ge=1)
    """Tool calls in one core job."""
    per_job_wall_time_ms: int = Field(default=3_600_000, ge=1)
    """How long a core job may take, waiting included; an hour."""
    max_injections_per_job: int = Field(default=20, ge=0)
    """Further instructions one core job takes."""
    skill_step_retries: int = Field(default=2, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition (spec 10.2)."""

    def overridden(self, own: "AgentBudgets") -> "Budgets":
        """Return these budgets with an agent's own in their place where it has any."""
        return self.model_copy(update=own.model_dump(exclude_none=True))


class AgentBudgets(Wire):
    """Hard stops of one agent; null: as `budgets` says."""

    max_steps_per_turn: int | None = Field(default=None, ge=1)
    """Model calls in one turn of this agent."""
    max_tool_calls_per_turn: int | None = Field(default=None, ge=1)
    """Tool calls in one turn of its edge lane."""
    max_core_jobs: int | None = Field(default=None, ge=0)
    """Its core jobs at the same time."""
    max_core_jobs_per_message: int | None = Field(default=None, ge=0)
    """Its core jobs from one message of the user's to the next."""
    total_session_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion of every call of one of its sessions."""
    max_tool_calls_per_session: int | None = Field(default=None, ge=1)
    """Tool calls of all lanes of one of its sessions."""
    per_job_max_steps: int | None = Field(default=None, ge=1)
    """Model calls in one of its core jobs."""
    per_job_max_tool_calls: int | None = Field(default=None, ge=1)
    """Tool calls in one of its core jobs."""
    per_job_wall_time_ms: int | None = Field(default=None, ge=1)
    """How long one of its core jobs may take, waiting included."""
    max_injections_per_job: int | None = Field(default=None, ge=0)
    """Further instructions one of its core jobs takes."""
    skill_step_retries: int | None = Field(default=None, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition."""
