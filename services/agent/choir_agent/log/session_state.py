"""The state of a session: the result of folding its log.

It can be written to a snapshot and read back, so that recovery time does not depend on the length of the log.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Protocol

import orjson
from pydantic import TypeAdapter

from choir_agent.provenance.taint_fold import UNKNOWN_PAST
from choir_common.lanes import EDGE_LANE, core_lane
from choir_common.wire.events import (
    CoreStarted,
    LaneSummary,
    ModelOutput,
    ToolCall,
    UserMessageStarted,
)
from choir_common.wire.memory_modes import MemoryMode
from choir_common.wire.model import JsonObject
from choir_common.wire.provenance import SessionTaint

NO_TAINT = SessionTaint()


class CallStage(StrEnum):
    """Progress of a tool call; only the arbiter advances it, by appending events."""

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
class WorkState:
    """A sequence of model calls and tool calls with one goal: a turn of the edge lane, or a core job."""

    turn_id: str
    """The turn_id of all its events; for a core job, the job's id."""
    dm: str
    steps: int = 0
    """Number of model outputs."""
    proposed: int = 0
    """Number of proposed tool calls."""
    tokens: int = 0
    """Prompt and completion tokens of all its model calls."""
    output: ModelOutput | None = None
    """The newest model output."""
    calls: tuple[CallState, ...] = ()
    """The calls of the newest model output."""
    news_rev: int = 0
    """Revision of the newest injection."""
    noticed: bool = False
    """Whether the user has already received the notice to wait."""
    cancelled: bool = False

    @property
    def news(self) -> bool:
        """Whether something was injected after the prompt of the newest output was made."""
        return self.output is not None and self.news_rev > self.output.read_rev


@dataclass(frozen=True, slots=True)
class SkillState:
    """The skill that a lane is in."""

    lane: str
    skill: str
    state: str
    input: JsonObject
    context: JsonObject
    steps: int = 0
    """Model outputs since the skill started."""
    refusals: int = 0
    """Refused tool calls and transitions in the current state."""
    entered_on: str = ""
    """The event that led to the current state; empty for the initial state."""
    entered_by: str = ""
    """Id of the call that led to it; empty for an automatic error transition."""
    entered_at: int = 0
    """Value of `steps` on entry. While `steps` equals it, the model has not seen the current state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState(WorkState):
    """An open turn of the edge lane: for a user's message, or for a report."""

    reminded: bool = False
    """Whether memory has added reminders to the message."""
    attachments_read: bool = False
    """Whether the agent has read the message's files."""
    spoken: bool = False
    """Whether the user said the message, or a part of it, in a voice message."""
    voice_problem: str = ""
    """Why a message that only consists of voice messages has no words."""
    inbox_id: str | None = None
    """The message that this turn answers; None for a report."""
    subject: str | None = None
    """The `DueReport.subject` that a report turn reports on."""
    brief: str = ""
    """Text of a report turn if the model fails."""
    scheduled: UserMessageStarted | None = None
    """The message for which this turn only starts a core job."""
    skill: SkillState | None = None
    """The skill of a parked turn; while the turn is parked, the lane is in no skill."""

    @property
    def lane(self) -> str:
        """The lane of its events."""
        return EDGE_LANE


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState(WorkState):
    """An open core job."""

    briefing: CoreStarted
    started_at: str
    """Start time, UTC, ISO 8601. Wall time counts from here, through crashes."""
    resumes: int = 0
    """Crashes since its last step."""
    injections: int = 0
    latest: JsonObject | None = None
    """Its newest progress report or plan."""
    injected_by: tuple[str, ...] = ()
    """The newest calls that injected something.

    A call that a crash interrupted finds its id here and does not inject again. There are several, because
    another call of the same model output may have come in between.
    """
    corrections: int = 0
    """Number of results that did not match the requested schema."""
    reported_by: tuple[str, ...] = ()
    """The newest calls that reported something."""
    skill_outcome: str = ""
    """How its newest skill ended."""
    needs: str | None = None
    """The information that it has asked for and not received yet."""

    @property
    def name(self) -> str:
        """The job's name as users see it."""
        return self.briefing.job_name

    @property
    def lane(self) -> str:
        """The lane of its events."""
        return core_lane(self.name)


@dataclass(frozen=True, slots=True)
class DueReport:
    """A report that the edge lane still owes the user."""

    subject: str
    brief: str
    dm: str


@dataclass(frozen=True, slots=True)
class PendingProposal:
    """A proposed change to this agent that waits for a human's decision."""

    approval_id: str
    what: str
    dm: str


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """Budget use of a session, and the amounts that the user granted in addition."""

    tokens: int = 0
    tool_calls: int = 0
    jobs: int = 0
    jobs_unasked: int = 0
    """Jobs started since the user's last message. Limited, because a report turn can start jobs that end
    in reports."""
    granted_tokens: int = 0
    granted_tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class SessionState:
    """The complete state of a session, without its history."""

    rev: int = 0
    epoch: int = 0
    carried: int = 0
    """Number of carried events; all of them are at the start of the log."""
    carried_from: tuple[str, ...] = ()
    """The sessions that carried events come from, oldest first."""
    stopped: bool = False
    """No more events are appended in this epoch."""
    suspended: bool = False
    """Whether the last epoch stopped in order with open work."""
    memory_mode: MemoryMode | None = None
    """The recorded memory mode; None if no event has recorded it."""
    turns_done: int = 0
    turn: TurnState | None = None
    parked: tuple[TurnState, ...] = ()
    """Open turns that wait for a human's decision while the lane works on something else, oldest first."""
    jobs: tuple[JobState, ...] = ()
    """Open jobs, oldest first."""
    due: tuple[DueReport, ...] = ()
    """Reports that the user has not received, oldest first."""
    proposals: tuple[PendingProposal, ...] = ()
    """Undecided proposals, oldest first."""
    skills: tuple[SkillState, ...] = ()
    """At most one for each lane."""
    summaries: tuple[LaneSummary, ...] = ()
    """At most one for each lane."""
    spent: BudgetUsage = BudgetUsage()
    exhausted: str | None = None
    """Name of the exhausted budget that the user was informed of and has not extended."""
    exhausted_limit: int = 0
    """The limit when that budget was exhausted; of a budget in money, in micro-dollars."""
    exhausted_until: str = ""
    """When the period of that budget ends, UTC, ISO 8601; empty without a period."""
    money_grant_rev: int = 0
    """Revision of the newest grant of a budget in money."""
    last_signal: int = 0
    """Sequence number of the newest inject, cancel or compact signal in the log."""
    fallbacks: tuple[str, ...] = ()
    """Names of the models for which another one answers, as the user was told."""
    taint: SessionTaint = NO_TAINT
    """Where the content of each lane and of the workspace comes from."""
    last_message_at: str = ""
    """When the newest message of the user or to the user was committed, UTC, ISO 8601, or empty."""

    @property
    def has_open_work(self) -> bool:
        """Whether a turn, a core job or a skill of the edge lane is unfinished."""
        turns = self.turn is not None or bool(self.parked)
        return turns or bool(self.jobs) or self.skill_of(EDGE_LANE) is not None

    @property
    def unstarted_reports(self) -> tuple[DueReport, ...]:
        """Due reports that have no turn yet, oldest first."""
        turns = self.parked if self.turn is None else (self.turn, *self.parked)
        subjects = {turn.subject for turn in turns}
        return tuple(due for due in self.due if due.subject not in subjects)

    def find_job(self, name: str) -> JobState | None:
        """Return the open job with that name."""
        return next((job for job in self.jobs if job.name == name), None)

    def find_work(self, turn_id: str) -> TurnState | JobState | None:
        """Return the open turn or job with that id; a parked turn is not searched."""
        if self.turn is not None and self.turn.turn_id == turn_id:
            return self.turn
        return next((job for job in self.jobs if job.turn_id == turn_id), None)

    def skill_of(self, lane: str) -> SkillState | None:
        """Return the skill that a lane is in."""
        return next((skill for skill in self.skills if skill.lane == lane), None)

    @property
    def parked_skill(self) -> SkillState | None:
        """The skill of a parked turn; there is at most one."""
        return next((turn.skill for turn in self.parked if turn.skill is not None), None)

    def summary_of(self, lane: str) -> LaneSummary | None:
        """Return a lane's reference summary."""
        return next((summary for summary in self.summaries if summary.lane == lane), None)


@cache
def _adapter() -> TypeAdapter[SessionState]:
    # Built on first use: most sessions are too short for a snapshot.
    return TypeAdapter(SessionState)


def dump_state(state: SessionState) -> JsonObject:
    """Return the state as JSON, for a snapshot."""
    dumped: JsonObject = _adapter().dump_python(state, mode="json")
    return dumped


def load_state(dumped: JsonObject) -> SessionState:
    """Return the state from a snapshot.

    Raises pydantic.ValidationError for an invalid snapshot.
    """
    state = _adapter().validate_python(dumped, strict=False)
    return state if "taint" in dumped else replace(state, taint=UNKNOWN_PAST)


def state_digest(state: SessionState) -> str:
    """Return a hash of the state: equal logs give equal hashes (GUARANTEES 3)."""
    return hashlib.sha256(orjson.dumps(dump_state(state), option=orjson.OPT_SORT_KEYS)).hexdigest()


class SessionStateSource(Protocol):
    """Access to the folded state of the log, which is replaced with each event."""

    @property
    def state(self) -> SessionState: ...
