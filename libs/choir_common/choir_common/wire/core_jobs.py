"""Wire models of core jobs: what a job is given beside its task, and the request to start one."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.model import JsonObject, Name, WireModel

JOB_NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,40}$"
MAX_TASK = 20_000
MAX_BUNDLE_BYTES = 60_000
"""Bytes of the context of a job, and of the schema of its result."""
MAX_JOB_KEY = 100
JobName = Annotated[str, StringConstraints(pattern=JOB_NAME_PATTERN)]
Verbosity = Literal["quiet", "normal", "detailed"]
MAX_NAME_SHOWN = 64
MAX_UNKNOWN_SHOWN = 5


class ContextBundle(WireModel):
    """Context for a core job in addition to its task."""

    facts: tuple[str, ...] = ()
    excerpts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class ToolConstraints(WireModel):
    """Restrictions on a core job's tools and time; an empty list and zero mean no restriction."""

    allowed_tools: tuple[str, ...] = ()
    time_budget_ms: int = Field(default=0, ge=0)


class JobOptions(WireModel):
    """What a person or a program chooses for a core job beside its task; see `choir.core.spawn`."""

    name: JobName | None = None
    """Default: one of its own. A number is added if an open job has the name."""
    context_bundle: ContextBundle = ContextBundle()
    tool_constraints: ToolConstraints = ToolConstraints()
    """`allowed_tools` are canonical names; a job has none of the tools that it does not name."""
    output_schema: JsonObject | None = None
    """JSON Schema of the result; default: plain text."""
    verbosity: Verbosity = "normal"
    harness: Name | None = None
    """The external coding agent that does it, by its name in `harnesses`; default: the agent's model."""

    def choices(self) -> dict[str, Any]:
        """Return the options by name, for a model that has them, too."""
        return {name: getattr(self, name) for name in JobOptions.model_fields}


class NewJob(JobOptions):
    """Request to start a core job."""

    task: str = Field(min_length=1, max_length=MAX_TASK)
    """A complete instruction: the job sees nothing of the conversation."""
    dm: Name | None = None
    """The conversation to which it reports; default: the home conversation."""
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=MAX_JOB_KEY)
    """A repeated request with the same key starts no second job."""


class JobQueued(WireModel):
    """A core job is stored, and starts at the agent's next safe point."""

    agent_id: str
    session_id: str
    dm: str
    job_id: str
    name: str
    """A number is added if an open job has this name."""
    duplicate: bool
    """Whether an earlier request with the same key started it."""
    seen_rev: int
    """A revision of the session's log before the end of the job; 0 for a duplicate."""


def unknown_tools_message(names: Sequence[str], available: Collection[str]) -> str:
    """Return which of these tools a core job cannot have, and those that it can; "" if it can have all.

    Names are canonical, such as `choir.fs.read`.
    """
    unknown = [name for name in names if name not in available]
    if not unknown:
        return ""
    faults = []
    for name in unknown[:MAX_UNKNOWN_SHOWN]:
        near = get_close_matches(name[:MAX_NAME_SHOWN], available, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        faults.append(f"{name[:MAX_NAME_SHOWN]!r}{hint}")
    more = len(unknown) - len(faults)
    ending = f" and {more} more" if more else ""
    return (
        f"A core job has no tool {', '.join(faults)}{ending}. "
        f"There are: {', '.join(sorted(available))}."
    )
