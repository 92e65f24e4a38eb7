"""Wire models of schedules: what is to happen at which times, and its runs."""

from typing import Literal

from pydantic import Field

from choir_common.wire.agent_questions import QuestionOrigin
from choir_common.wire.config_parts import TimeZone
from choir_common.wire.core_jobs import JobOptions
from choir_common.wire.model import AgentName, AwareTime, Name, WireModel
from choir_common.wire.provenance import OriginText

MAX_SCHEDULE_TEXT = 4_000
MAX_DURATION_TEXT = 40
ScheduleKind = Literal["remind", "prompt", "job", "skill"]
"""`remind`: Choir sends the words unchanged, without a model; `prompt`: the words instruct the agent; `job`:
they are the task of a core job; `skill`: of a core job that runs a skill."""
DEFAULT_SKILL_TEXT = "Run the skill {skill}."
"""The words of a schedule that names a skill and nothing else."""
NOTHING_TO_SAY = "NOTHING_TO_SAY"
"""The whole answer of an agent to a wake-up that needs no message."""
SKILL_NAME = r"^[a-z0-9_-]{1,64}$"
TimingKind = Literal["in", "at", "every", "cron"]
CatchUp = Literal["once", "skip", "all"]
"""What happens with runs that are later than the grace: the newest one runs late, none does, or all do."""
Overlap = Literal["skip", "wait", "allow"]
"""What happens with a run while an earlier one is running; `wait`: one waits, others are skipped."""
ScheduleState = Literal["active", "paused", "ended"]
RunState = Literal["due", "running", "done", "failed", "missed", "skipped", "paused"]


class NewSchedule(WireModel):
    """Request to create a schedule."""

    agent_id: AgentName
    kind: ScheduleKind
    text: str = Field(min_length=1, max_length=MAX_SCHEDULE_TEXT)
    """The words of the reminder, or the instruction to the agent or the core job."""
    skill: str | None = Field(default=None, pattern=SKILL_NAME)
    """The skill to run, for the kind `skill`. Words that are a JSON object are its input, too."""
    timing: TimingKind
    value: str = Field(min_length=1, max_length=200)
    """A duration (`in`, `every`), a time (`at`) or a cron expression with five fields."""
    zone: TimeZone | None = None
    """IANA name; default: the time zone of the conversation."""
    dm: Name | None = None
    """The conversation; default: the agent's current one, or else its default."""
    catch_up: CatchUp = "once"
    grace: str = Field(default="10m", max_length=MAX_DURATION_TEXT)
    """A run that starts later than this is late."""
    overlap: Overlap | None = None
    """Default: `allow` for reminders, else `skip`."""
    jitter: str = Field(default="0s", max_length=MAX_DURATION_TEXT)
    """Each run starts up to this much later, by a fixed amount that depends on the schedule and the time."""
    max_failures: int = Field(default=5, ge=1, le=100)
    """Consecutive failures after which the schedule is paused."""
    words: str = Field(default="", max_length=MAX_SCHEDULE_TEXT)
    """The words or the command from which the schedule was made."""
    paused: bool = False
    """Start nothing until it is resumed."""


class ScheduleEdit(WireModel):
    """Request to change a schedule; None: unchanged."""

    text: str | None = Field(default=None, min_length=1, max_length=MAX_SCHEDULE_TEXT)
    timing: TimingKind | None = None
    """Only together with `value`."""
    value: str | None = Field(default=None, min_length=1, max_length=200)
    """A new time: intervals begin now, and runs that wait are skipped."""
    zone: TimeZone | None = None
    catch_up: CatchUp | None = None
    grace: str | None = Field(default=None, max_length=MAX_DURATION_TEXT)
    overlap: Overlap | None = None
    jitter: str | None = Field(default=None, max_length=MAX_DURATION_TEXT)
    max_failures: int | None = Field(default=None, ge=1, le=100)
    words: str = Field(default="", max_length=MAX_SCHEDULE_TEXT)
    """The words or the command that asked for it; they are added to those of the schedule."""

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.model_dump(exclude={"words"}, exclude_none=True)


class RunView(WireModel):
    """One run of a schedule."""

    run_id: str
    due_at: AwareTime
    state: RunState
    detail: str
    """Why it has this state, if that is not obvious."""
    manual: bool
    """Whether a person started it outside of its times."""
    started_at: AwareTime | None
    ended_at: AwareTime | None


class ScheduleView(WireModel):
    """A schedule; `runs` are its newest runs, the newest first."""

    schedule_id: int
    agent_id: str
    dm: str
    kind: ScheduleKind
    text: str
    skill: str
    """Empty unless the kind is `skill`."""
    timing: TimingKind
    value: str
    zone: str
    summary: str
    """When it runs, as text."""
    state: ScheduleState
    note: str
    """Why it is paused or waits."""
    next_at: AwareTime | None
    catch_up: CatchUp
    grace_s: int
    overlap: Overlap
    jitter_s: int
    failures: int
    max_failures: int
    created_by: str
    """`operator`, `dm NAME`, `agent NAME` or `choir`."""
    text_by: str
    """Who wrote the present text."""
    words: str
    created_at: AwareTime
    runs: tuple[RunView, ...] = ()


class WakeUp(WireModel):
    """Mark of a message that a schedule, a trigger or another agent sent and no person wrote."""

    schedule_id: int = 0
    """0: a trigger or a request sent it."""
    summary: str
    """When the schedule runs and when this run was due, or what the trigger is, as text."""
    by_agent: bool
    """Whether the agent wrote the schedule's words; they may then come from what the agent has read."""
    as_job: bool = False
    """Whether a core job does what the words say, instead of a turn."""
    skill: str = ""
    """The skill that the core job runs."""
    job: JobOptions | None = None
    """Set if a person or a program started this core job directly."""
    outside: OriginText = ""
    """The origin of its words, if they come from outside of Choir: `webhook NAME`."""
    quiet: bool = False
    """Whether the agent may answer that there is nothing to say; then nobody is shown anything."""
    question: QuestionOrigin | None = None
    """Set if another agent asks."""


class ScheduleByAgent(WireModel):
    """Input of `choir.schedule.create`."""

    kind: ScheduleKind
    text: str = Field(min_length=1, max_length=MAX_SCHEDULE_TEXT)
    skill: str | None = Field(default=None, pattern=SKILL_NAME)
    timing: TimingKind
    value: str = Field(min_length=1, max_length=200)
    zone: TimeZone | None = None
    catch_up: CatchUp = "once"
    overlap: Overlap | None = None
    ask_user: bool = False
    """Whether a person has agreed to this call: the agent's arbiter asks about each call with it."""
    inbox_id: str | None = None
    """The message that the agent answers, set by the agent process; None: a report."""


class ScheduleUpdate(WireModel):
    """Input of `choir.schedule.update`."""

    schedule_id: int
    state: Literal["active", "paused"] | None = None
    text: str | None = Field(default=None, min_length=1, max_length=MAX_SCHEDULE_TEXT)
    timing: TimingKind | None = None
    value: str | None = Field(default=None, min_length=1, max_length=200)
    zone: TimeZone | None = None
    catch_up: CatchUp | None = None
    overlap: Overlap | None = None
    ask_user: bool = False
    inbox_id: str | None = None
    """As in `ScheduleByAgent`."""


class ScheduleRemoval(WireModel):
    """Input of `choir.schedule.delete`."""

    schedule_id: int
    ask_user: bool = False


class ScheduleSummary(WireModel):
    """A schedule as its agent reads it."""

    schedule_id: int
    kind: ScheduleKind
    text: str
    when: str
    state: ScheduleState | Literal["deleted"]
    next: str
    """The next due time in the schedule's zone, or empty."""
    note: str
    by_agent: bool


class ScheduleSummaries(WireModel):
    """Output of `choir.schedule.list`."""

    schedules: tuple[ScheduleSummary, ...]
