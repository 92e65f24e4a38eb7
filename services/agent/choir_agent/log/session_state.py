"""The state of a session: the result of folding its log.

It can be written to a snapshot and read back, so that recovery time does not depend on the length of the log.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Protocol

import orjson
from pydantic import JsonValue, TypeAdapter

from choir_agent.provenance.taint_fold import UNKNOWN_PAST
from choir_common.lanes import EDGE_LANE, core_lane, edge_lane_of, is_edge, is_home
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
_TURN_DEFAULTS: JsonObject = {"lane": EDGE_LANE, "resumes": 0, "scheduled": None, "quiet": False}
_JOB_DEFAULTS: JsonObject = {"edge": EDGE_LANE, "skill_outcome": ""}
_BRIEFING_DEFAULTS: JsonObject = {"harness": ""}
_LANE_DEFAULT: JsonObject = {"lane": EDGE_LANE}
_STATE_DEFAULTS: JsonObject = {"asked_in": [EDGE_LANE], "other_messages_at": []}


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
    """An open turn of an edge lane: for a user's message, or for a report."""

    lane: str = EDGE_LANE
    """The lane of its events: that of its conversation."""
    resumes: int = 0
    """Crashes during the turn, while it was not waiting for a human.

    Counted only in a session with several conversations. With one, control counts the resumes of the session
    until a turn ends (docs/decisions/0074).
    """
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
    quiet: bool = False
    """Whether it may end without a message to the user: a wake-up."""
    skill: SkillState | None = None
    """The skill of a parked turn; while the turn is parked, the lane is in no skill."""

    @property
    def is_waiting(self) -> bool:
        """Whether it only waits for locks or for a human: no call was committed, and some were requested."""
        stages = {call.stage for call in self.calls}
        return CallStage.REQUESTED in stages and CallStage.COMMITTED not in stages


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState(WorkState):
    """An open core job."""

    briefing: CoreStarted
    edge: str = EDGE_LANE
    """The lane of the conversation that started it."""
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
    """A report that an edge lane still owes its user."""

    subject: str
    brief: str
    dm: str
    lane: str = EDGE_LANE
    """The lane of the conversation that it is reported to."""


@dataclass(frozen=True, slots=True)
class PendingProposal:
    """A proposed change to this agent that waits for a human's decision."""

    approval_id: str
    what: str
    dm: str
    lane: str = EDGE_LANE
    """The lane of the conversation in which it was made."""


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """Budget use of a session, and the amounts that the user granted in addition."""

    tokens: int = 0
    tool_calls: int = 0
    jobs: int = 0
    jobs_unasked: int = 0
    """Jobs started since the user's last message in the home conversation. Limited, because a report turn
    can start jobs that end in reports."""
    jobs_unasked_elsewhere: tuple[tuple[str, int], ...] = ()
    """The same for the edge lanes of other conversations."""
    granted_tokens: int = 0
    granted_tool_calls: int = 0

    def unasked_in(self, lane: str) -> int:
        """Return the number of jobs that an edge lane has started since its user's last message."""
        return (
            self.jobs_unasked if is_home(lane) else dict(self.jobs_unasked_elsewhere).get(lane, 0)
        )

    def with_unasked(self, lane: str, jobs: int) -> "BudgetUsage":
        """Return the usage with that number of jobs of an edge lane."""
        if is_home(lane):
            return replace(self, jobs_unasked=jobs)
        elsewhere = {**dict(self.jobs_unasked_elsewhere), lane: jobs}
        return replace(self, jobs_unasked_elsewhere=tuple(elsewhere.items()))


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
    turns: tuple[TurnState, ...] = ()
    """Open turns, at most one for each edge lane, oldest first."""
    is_shared: bool = False
    """Whether a turn has begun in another lane than that of the home conversation."""
    parked: tuple[TurnState, ...] = ()
    """Open turns that wait for a human's decision while their lane works on something else, oldest first."""
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
    asked_in: tuple[str, ...] = (EDGE_LANE,)
    """The edge lanes whose users were asked to extend that budget; only they can."""
    money_grant_rev: int = 0
    """Revision of the newest grant of a budget in money."""
    last_signal: int = 0
    """Sequence number of the newest inject, cancel or compact signal in the log."""
    fallbacks: tuple[str, ...] = ()
    """Names of the models for which another one answers, as the user was told."""
    taint: SessionTaint = NO_TAINT
    """Where the content of each lane and of the workspace comes from."""
    last_message_at: str = ""
    """When the newest message of the user or to the user was committed in the home conversation, UTC, ISO
    8601, or empty."""
    other_messages_at: tuple[tuple[str, str], ...] = ()
    """The same for the edge lanes of other conversations."""

    @property
    def has_open_work(self) -> bool:
        """Whether a turn, a core job or a skill of an edge lane is unfinished."""
        skills = any(is_edge(skill.lane) for skill in self.skills)
        return bool(self.turns or self.parked or self.jobs) or skills

    @property
    def turn(self) -> TurnState | None:
        """The open turn of the home conversation."""
        return self.turn_in(EDGE_LANE)

    def turn_in(self, lane: str) -> TurnState | None:
        """Return the open turn of an edge lane; a parked turn is not open."""
        return next((turn for turn in self.turns if turn.lane == lane), None)

    def last_message_in(self, lane: str) -> str:
        """Return when the newest message of an edge lane was committed, or an empty text."""
        return self.last_message_at if is_home(lane) else dict(self.other_messages_at).get(lane, "")

    def find_turn(self, turn_id: str) -> TurnState | None:
        """Return the open turn with that id; a parked turn is not open."""
        return next((turn for turn in self.turns if turn.turn_id == turn_id), None)

    def parked_in(self, lane: str) -> tuple[TurnState, ...]:
        """Return the parked turns of an edge lane, oldest first."""
        return tuple(turn for turn in self.parked if turn.lane == lane)

    @property
    def unstarted_reports(self) -> tuple[DueReport, ...]:
        """Due reports that have no turn yet, oldest first."""
        subjects = {turn.subject for turn in (*self.turns, *self.parked)}
        return tuple(due for due in self.due if due.subject not in subjects)

    def reports_in(self, lane: str) -> tuple[DueReport, ...]:
        """Return the due reports of an edge lane that have no turn yet, oldest first."""
        return tuple(due for due in self.unstarted_reports if due.lane == lane)

    def find_job(self, name: str) -> JobState | None:
        """Return the open job with that name."""
        return next((job for job in self.jobs if job.name == name), None)

    def jobs_in(self, lane: str) -> tuple[JobState, ...]:
        """Return the open jobs that an edge lane has started, oldest first."""
        return tuple(job for job in self.jobs if job.edge == lane)

    def edge_of(self, lane: str) -> str:
        """Return the edge lane of a lane's conversation: for a core job, the one that started it."""
        edges = (job.edge for job in self.jobs if job.lane == lane)
        return next(edges, edge_lane_of(lane))

    @property
    def open_edges(self) -> frozenset[str]:
        """The edge lanes that have unfinished work, or will have a report to make."""
        turns = (turn.lane for turn in (*self.turns, *self.parked))
        jobs = (job.edge for job in self.jobs)
        reports = (due.lane for due in self.due)
        proposals = (proposal.lane for proposal in self.proposals)
        skills = (skill.lane for skill in self.skills if is_edge(skill.lane))
        return frozenset((*turns, *jobs, *reports, *proposals, *skills))

    def find_work(self, turn_id: str) -> TurnState | JobState | None:
        """Return the open turn or job with that id; a parked turn is not searched."""
        turn = self.find_turn(turn_id)
        return turn or next((job for job in self.jobs if job.turn_id == turn_id), None)

    def skill_of(self, lane: str) -> SkillState | None:
        """Return the skill that a lane is in."""
        return next((skill for skill in self.skills if skill.lane == lane), None)

    def parked_skill_of(self, lane: str) -> SkillState | None:
        """Return the skill of a parked turn of a lane; there is at most one."""
        skills = (turn.skill for turn in self.parked_in(lane))
        return next((skill for skill in skills if skill is not None), None)

    def summary_of(self, lane: str) -> LaneSummary | None:
        """Return a lane's reference summary."""
        return next((summary for summary in self.summaries if summary.lane == lane), None)


@cache
def _adapter() -> TypeAdapter[SessionState]:
    # Built on first use: most sessions are too short for a snapshot.
    return TypeAdapter(SessionState)


def dump_state(state: SessionState) -> JsonObject:
    """Return the state as JSON, for a snapshot.

    A session with one conversation has the snapshot of versions that knew no other: the turn of the home
    conversation is `turn`, and what only several conversations need is left out.
    """
    dumped: JsonObject = _adapter().dump_python(state, mode="json")
    turns, is_shared = _without(dumped.pop("turns"), _TURN_DEFAULTS), dumped.pop("is_shared")
    home = next((turn for turn in turns if "lane" not in turn), None)
    dumped["turn"] = home
    dumped["parked"] = [*_without(dumped["parked"], _TURN_DEFAULTS)]
    dumped["jobs"] = [
        job | {"briefing": _without([job["briefing"]], _BRIEFING_DEFAULTS)[0]}
        for job in _without(dumped["jobs"], _JOB_DEFAULTS)
    ]
    for name in ("due", "proposals"):
        dumped[name] = [*_without(dumped[name], _LANE_DEFAULT)]
    spent = dumped["spent"]
    if isinstance(spent, dict) and not spent["jobs_unasked_elsewhere"]:
        del spent["jobs_unasked_elsewhere"]
    for name, default in _STATE_DEFAULTS.items():
        if dumped[name] == default:
            del dumped[name]
    if is_shared:
        others: list[JsonValue] = [turn for turn in turns if turn is not home]
        dumped |= {"turns": others, "is_shared": True}
    return dumped


def _without(works: JsonValue, defaults: JsonObject) -> list[JsonObject]:
    """Return turns, jobs or reports without fields that have these values."""
    return [
        {key: value for key, value in work.items() if key not in defaults or value != defaults[key]}
        for work in (works if isinstance(works, list) else ())
        if isinstance(work, dict)
    ]


def load_state(dumped: JsonObject) -> SessionState:
    """Return the state from a snapshot.

    Raises pydantic.ValidationError for an invalid snapshot.
    """
    home, others = dumped.get("turn"), dumped.get("turns")
    turns = [*([] if home is None else [home]), *(others if isinstance(others, list) else ())]
    state = _adapter().validate_python(dumped | {"turns": turns}, strict=False)
    return state if "taint" in dumped else replace(state, taint=UNKNOWN_PAST)


def state_digest(state: SessionState) -> str:
    """Return a hash of the state: equal logs give equal hashes (GUARANTEES 3)."""
    return hashlib.sha256(orjson.dumps(dump_state(state), option=orjson.OPT_SORT_KEYS)).hexdigest()


class SessionStateSource(Protocol):
    """Access to the folded state of the log, which is replaced with each event."""

    @property
    def state(self) -> SessionState: ...
