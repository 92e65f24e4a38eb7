"""What a session's log adds up to: the state that `fold` steps from event to event.

Read by everybody in the agent, changed by nobody but `fold`. It can be written into a snapshot and read
back, so that recovery is bounded however long the log (spec 13.2, 13.4).
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import orjson
from pydantic import TypeAdapter

from choir_common.wire.events import CoreStarted, LaneSummary, ModelOutput, ToolCall
from choir_common.wire.json import JsonObject

EDGE = "edge"
CORE = "core:"


def core_lane(job_name: str) -> str:
    """Return the lane of a core job."""
    return f"{CORE}{job_name}"


class CallStage(StrEnum):
    """How far a tool call has come; only the arbiter moves it, by appending."""

    PROPOSED = "proposed"
    REQUESTED = "requested"
    COMMITTED = "committed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CallState:
    """A tool call of the newest model output."""

    call: ToolCall
    stage: CallStage = CallStage.PROPOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Model calls and tool calls in a row, towards one end: a turn of the edge lane, or a core job."""

    turn_id: str
    """A job's id is the turn_id of all its events."""
    dm: str
    steps: int = 0
    """Model outputs so far."""
    proposed: int = 0
    """Tool calls proposed so far."""
    tokens: int = 0
    """Prompt and completion of all its model calls."""
    output: ModelOutput | None = None
    """The newest model output."""
    calls: tuple[CallState, ...] = ()
    """The calls of that output."""
    news_rev: int = 0
    """Where the newest injection stands."""
    noticed: bool = False
    """The user was already told to wait."""
    cancelled: bool = False
    read_outside: bool = False
    """It has read what strangers wrote; what is noted down from here on is trusted no further."""

    @property
    def news(self) -> bool:
        """Whether something was injected that the newest output had not read."""
        return self.output is not None and self.news_rev > self.output.read_rev


@dataclass(frozen=True, slots=True)
class SkillState:
    """The skill a lane is in (spec 13.4)."""

    lane: str
    skill: str
    state: str
    input: JsonObject
    context: JsonObject
    steps: int = 0
    """Model outputs since it began."""
    refusals: int = 0
    """Forbidden tools and transitions in this state."""
    entered_on: str = ""
    """What brought it into this state; nothing for the initial one."""
    entered_by: str = ""
    """The call that did; nothing for the arbiter's own error transition."""
    entered_at: int = 0
    """Its steps at that moment: until the next one the model has not seen this state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState(Work):
    """What the edge lane is busy with: a user's message, or something it has to report."""

    reminded: bool = False
    """Memory laid something beside the message."""
    inbox_id: str | None = None
    """The message this turn answers; none for a report."""
    subject: str | None = None
    """What a report turn tells of."""
    brief: str = ""
    """What a report turn says should the model fail."""
    skill: SkillState | None = None
    """The skill that the turn took with it when it was put aside; the lane is in none meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState(Work):
    """A core job that has not ended."""

    briefing: CoreStarted
    started_at: str
    """When it began, UTC, ISO 8601: wall time goes on through a crash."""
    resumes: int = 0
    """Crashes it has lived through since its last step."""
    injections: int = 0
    latest: JsonObject | None = None
    """Its newest progress or plan."""
    injected_by: tuple[str, ...] = ()
    """The newest calls that injected something: one that a crash cut off knows its own effect, also when
    another of the same model output came between."""
    corrections: int = 0
    """How often its result did not fit the asked shape."""
    reported_by: tuple[str, ...] = ()
    """The newest calls that reported something."""
    needs: str | None = None
    """What it has asked for and not yet got."""

    @property
    def name(self) -> str:
        """The name people call it by."""
        return self.briefing.job_name

    @property
    def lane(self) -> str:
        """The lane its events stand in."""
        return core_lane(self.name)


@dataclass(frozen=True, slots=True)
class Due:
    """Something the edge lane still has to report."""

    subject: str
    brief: str
    dm: str
    read_outside: bool = False
    """What is told of has read what strangers wrote."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of what this agent can do, on which a human has not decided yet (spec 8.10)."""

    approval_id: str
    what: str
    dm: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has used of its budgets, and what the user granted beyond them (spec 7.6)."""

    tokens: int = 0
    tool_calls: int = 0
    jobs: int = 0
    jobs_unasked: int = 0
    """Of those, the ones since the user's last message: reports can start jobs, which are reported."""
    granted_tokens: int = 0
    granted_tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class SessionState:
    """Everything a session is, apart from its history."""

    rev: int = 0
    epoch: int = 0
    carried: int = 0
    """Events copied from the session before, all at the beginning of the log."""
    carried_from: tuple[str, ...] = ()
    """The sessions they were first written to, oldest first."""
    stopped: bool = False
    """Nothing more is written in this epoch."""
    suspended: bool = False
    """It was stopped with open work, and no crash."""
    turns_done: int = 0
    turn: TurnState | None = None
    parked: tuple[TurnState, ...] = ()
    """Open turns that wait for a human's decision while the lane does something else, oldest first."""
    jobs: tuple[JobState, ...] = ()
    """Open jobs, oldest first."""
    due: tuple[Due, ...] = ()
    """What is to be reported, oldest first."""
    proposals: tuple[Proposal, ...] = ()
    """Undecided ones, oldest first."""
    skills: tuple[SkillState, ...] = ()
    """At most one for each lane."""
    summaries: tuple[LaneSummary, ...] = ()
    """At most one for each lane."""
    spent: Spent = Spent()
    exhausted: str | None = None
    """The budget whose end the user was told of and has not answered."""
    exhausted_limit: int = 0
    """The limit that was reached then."""
    last_signal: int = 0
    """The newest inject, cancel or compact signal that stands in the log."""

    @property
    def has_open_work(self) -> bool:
        """Whether a turn, a core job or a skill of the conversation is unfinished."""
        turns = self.turn is not None or bool(self.parked)
        return turns or bool(self.jobs) or self.skill(EDGE) is not None

    @property
    def unbegun(self) -> tuple[Due, ...]:
        """What is to be reported and has no turn yet, oldest first."""
        turns = self.parked if self.turn is None else (self.turn, *self.parked)
        begun = {turn.subject for turn in turns}
        return tuple(due for due in self.due if due.subject not in begun)

    def job(self, name: str) -> JobState | None:
        """Return the open job of that name."""
        return next((job for job in self.jobs if job.name == name), None)

    def work(self, turn_id: str) -> TurnState | JobState | None:
        """Return the open turn or job with that id."""
        if self.turn is not None and self.turn.turn_id == turn_id:
            return self.turn
        return next((job for job in self.jobs if job.turn_id == turn_id), None)

    def skill(self, lane: str) -> SkillState | None:
        """Return the skill a lane is in."""
        return next((skill for skill in self.skills if skill.lane == lane), None)

    @property
    def parked_skill(self) -> SkillState | None:
        """Return the skill of a turn that is put aside; there is at most one."""
        return next((turn.skill for turn in self.parked if turn.skill is not None), None)

    def summary(self, lane: str) -> LaneSummary | None:
        """Return what a lane has summed up."""
        return next((summary for summary in self.summaries if summary.lane == lane), None)


@cache
def _adapter() -> TypeAdapter[SessionState]:
    # made when a snapshot is first written or read: most sessions are too short for one
    return TypeAdapter(SessionState)


def dump(state: SessionState) -> JsonObject:
    """Return the state as JSON, for a snapshot."""
    dumped: JsonObject = _adapter().dump_python(state, mode="json")
    return dumped


def load(dumped: JsonObject) -> SessionState:
    """Return the state a snapshot holds.

    Raises pydantic.ValidationError when it is none.
    """
    return _adapter().validate_python(dumped, strict=False)


def digest_of(state: SessionState) -> str:
    """Return a hash of the state: equal logs give equal hashes (GUARANTEES, 3)."""
    return hashlib.sha256(orjson.dumps(dump(state), option=orjson.OPT_SORT_KEYS)).hexdigest()
