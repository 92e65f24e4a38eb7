"""Split a session's log into the units that search ranks: messages, runs of tool calls, jobs. Pure.

Units depend on the events only: the same units result however the log
is divided into pages and however often a page is sent. Unfinished state is stored in `SplitterState`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from choir_common.eventlog.tool_results import returns_outside_text
from choir_common.lanes import CORE_LANE_PREFIX, core_lane, is_core, is_edge
from choir_common.wire.events import (
    ApprovalDecided,
    CarriedEvent,
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    EventPayload,
    InjectedInstruction,
    MemoryCompacted,
    ModelOutput,
    RemindersAdded,
    Reply,
    ReportBegun,
    SessionAbandoned,
    SessionStarted,
    SessionStopped,
    SkillStarted,
    SkillStopped,
    SkillTransitioned,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
    parse_carried_payload,
    parse_payload,
)
from choir_common.wire.model import JsonObject
from choir_memory.documents.model import TRUST, Origin, UnitKind
from choir_memory.sessions.failure_tracker import FailureTracker, FailureTrackerState
from choir_memory.sessions.lane_trust import FULL_TRUST, LaneTrust
from choir_memory.sessions.rendering import (
    is_unrecorded,
    remove_nul,
    render_call,
    render_object,
    render_result,
    split_text,
)
from choir_memory.sessions.trust import MEMORY_QUERY, Inherited, trust_of_result

RUN_CHARS = 4_000
RUN_CALLS = 8
"""A run of this many calls, or `RUN_CHARS` characters, is closed when none of its calls is pending."""
RUN_HARD_CHARS = 16_000
"""A run of this length is closed in any case."""
MAX_TRACKED_TURNS = 32
"""Turns and jobs for which the sources' trust is tracked; fewer are open at once."""
STORED_REPORT_KINDS = ("plan", "need_info", "partial_result")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: the events it covers, and its number among the parts of their text."""

    first_rev: int
    last_rev: int
    part: int
    index: int
    kind: UnitKind
    text: str
    at: str
    ended_at: str
    speaker: str | None
    origin: Origin
    trust: int
    metadata: JsonObject


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """The agent's summary of the session when it ended."""

    summary: str
    topics: tuple[tuple[str, str], ...]
    """Pairs of title and text."""


@dataclass(slots=True)
class ToolRun:
    """Tool calls of one turn, in one lane and one phase of a skill."""

    turn_id: str
    phase: str
    first_rev: int
    last_rev: int
    at: str
    ended_at: str
    lines: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    chars: int = 0
    calls: int = 0
    outside: bool = False
    trust: int = FULL_TRUST
    """The least trust of the lane while the calls were made; states of older versions lack it."""


@dataclass(slots=True)
class SplitterState:
    """State of what the events so far have started and not finished."""

    next_index: int = 0
    runs: dict[str, ToolRun] = field(default_factory=dict)
    """Open runs by lane."""
    phases: dict[str, str] = field(default_factory=dict)
    """Skill and state of each lane."""
    sources: dict[str, int] = field(default_factory=dict)
    """The least trust of what a turn or job has read, by its id."""
    reminded: list[str] = field(default_factory=list)
    """Turns in which memory was shown: their replies may repeat it."""
    following: FailureTrackerState = field(default_factory=FailureTrackerState)
    inherited: Inherited = field(default_factory=Inherited)
    lane_trust: dict[str, int] = field(default_factory=dict)
    """The least trust of what each lane has read; states of older versions lack it."""
    edge_by_job: dict[str, str] = field(default_factory=dict)
    """The lane of the conversation that started each open job; states of older versions lack it."""

    @property
    def edge_trust(self) -> int:
        """The least trust of what the edge lanes have read."""
        trusts = (trust for lane, trust in self.lane_trust.items() if is_edge(lane))
        return min(trusts, default=FULL_TRUST)


_UNSETTLED: TypeAdapter[SplitterState] = TypeAdapter(SplitterState)


def parse_state(text: str) -> SplitterState:
    """Parse the JSON of `render_state`; `{}` is the initial state."""
    return _UNSETTLED.validate_json(text)


def render_state(unsettled: SplitterState) -> str:
    """Return the state as JSON."""
    return _UNSETTLED.dump_json(unsettled).decode()


class UnitSplitter:
    """Splitter of an event log, fed in order; `units` contains the finished units."""

    def __init__(self, agent_id: str, unsettled: SplitterState) -> None:
        self._agent_id = agent_id
        self.unsettled = unsettled
        self.units: list[Unit] = []
        self.ending: AgentSummary | None = None
        self.troubles = FailureTracker(unsettled.following)
        self._lanes = LaneTrust(unsettled.lane_trust, unsettled.edge_by_job)

    def take(self, event: Event) -> None:
        """Process one event; unknown types are ignored."""
        event = remove_nul(event)
        try:
            payload = parse_payload(event)
        except ValidationError:
            return
        # The end of a job is still a text of its lane.
        if not isinstance(payload, CoreStopped):
            self._lanes.take(event.lane, payload)
        match payload:
            case (
                UserMessageStarted()
                | Reply()
                | InjectedInstruction()
                | SessionAbandoned()
                | ApprovalDecided()
            ):
                self._words(event, payload)
            case ModelOutput() | ToolCallRequested() | ToolResultCommitted():
                self._tools(event, payload)
            case CoreStarted() | CoreReported() | CoreStopped():
                self._job(event, payload)
            case SkillStarted() | SkillTransitioned() | SkillStopped():
                self._skill(event, payload)
            case RemindersAdded() | ReportBegun():
                self._note_sources(payload)
            case SessionStarted(seed=seed) if seed:
                self.unsettled.inherited.begin(payload)
            case CarriedEvent():
                self._carry(event, payload)
            case MemoryCompacted(failed=""):
                self.unsettled.inherited.fold(payload)
            case SessionStopped():
                topics = tuple((topic.title, topic.text) for topic in payload.topics)
                self.ending = AgentSummary(payload.summary or "", topics)
            case _:
                pass

    def finish(self) -> None:
        """Close all open runs, because the session has ended."""
        for lane in list(self.unsettled.runs):
            self._close(lane)
        self.troubles.end_session()

    def _carry(self, event: Event, copy: CarriedEvent) -> None:
        """Note what a copied event had read. It becomes no unit: its own session has one."""
        try:
            payload = parse_carried_payload(copy)
        except ValidationError:
            return
        least = self._note_sources(payload)
        self.unsettled.inherited.carry(copy, event.rev, least)

    def _note_sources(self, payload: EventPayload) -> int | None:
        """Lower the trust of a turn to that of what it has read; return that, None if it read nothing."""
        match payload:
            # without reminders it names collections only, whose text is not shown
            case RemindersAdded(reminders=reminders) if reminders:
                least = min(reminder.trust for reminder in reminders)
                self._recall(payload.turn_id)
            case ReportBegun():
                least = self._trust_of(payload.subject)
            case ToolResultCommitted() if (result_trust := trust_of_result(payload)) is not None:
                least = result_trust
                if payload.tool == MEMORY_QUERY:
                    self._recall(payload.turn_id)
            case _:
                return None
        self._read(payload.turn_id, least)
        return least

    def _words(
        self,
        event: Event,
        payload: UserMessageStarted
        | Reply
        | InjectedInstruction
        | SessionAbandoned
        | ApprovalDecided,
    ) -> None:
        match payload:
            case UserMessageStarted(wake_up=wake_up) if wake_up is not None:
                self._close(event.lane)
                self._add(event, "note", payload.text, "schedule", "agent", payload.turn_id)
            case UserMessageStarted():
                self._close(event.lane)
                self._add(event, "turn", payload.text, "user", "user", payload.turn_id)
            case InjectedInstruction(by="user"):
                self._add(event, "turn", payload.text, "user", "user", payload.turn_id or "")
            case Reply():
                self._close(event.lane)
                kind: UnitKind = "turn" if payload.kind in ("answer", "report") else "note"
                turn = payload.turn_id or ""
                about: JsonObject = {"reminded": True} if turn in self.unsettled.reminded else {}
                self._add(event, kind, payload.text, self._agent_id, "agent", turn, about)
                self.unsettled.sources.pop(turn, None)
                self.troubles.close(turn)
            case SessionAbandoned():
                self._add(event, "note", payload.text, "choir", "agent", "")
            case ApprovalDecided(status="expired"):
                words = f"expired without a decision: {payload.what}"
                self._add(event, "note", words, "choir", "agent", "")
            case ApprovalDecided():
                # The user decided, but the agent described what about.
                limit = self._lanes.of(event.lane)
                words = f"{payload.status}: {payload.what}"
                self._add(event, "note", words, "user", "user", "", limit=limit)
            case _:
                pass

    def _tools(
        self, event: Event, payload: ModelOutput | ToolCallRequested | ToolResultCommitted
    ) -> None:
        match payload:
            case ModelOutput():
                loud = any(not is_unrecorded(call.tool) for call in payload.tool_calls)
                if loud and payload.text.strip():
                    self._run(event, payload.turn_id).lines.append(payload.text.strip())
            case ToolCallRequested() if not is_unrecorded(payload.tool):
                run = self._run(event, payload.turn_id)
                run.lines.append(render_call(payload))
                run.pending.append(payload.call_id)
                self.troubles.ask(payload)
                run.calls += 1
                if payload.tool not in run.tools:
                    run.tools.append(payload.tool)
            case ToolResultCommitted():
                self._note_sources(payload)
                if not is_unrecorded(payload.tool):
                    self._result(event, payload)
            case _:
                pass

    def _result(self, event: Event, payload: ToolResultCommitted) -> None:
        run = self._run(event, payload.turn_id, begins=False)
        lane_trust = self._lanes.of(event.lane)
        self.troubles.answer(payload, event.at, run.first_rev, lane_trust=lane_trust)
        run.lines.append(render_result(payload))
        run.chars += len(run.lines[-1])
        run.outside = run.outside or returns_outside_text(payload.tool, payload.output)
        if payload.call_id in run.pending:
            run.pending.remove(payload.call_id)
        if payload.tool not in run.tools:
            run.tools.append(payload.tool)

    def _job(self, event: Event, payload: CoreStarted | CoreReported | CoreStopped) -> None:
        about: JsonObject = {"job": payload.job_name}
        match payload:
            case CoreStarted():
                text = f"{payload.job_name} is to be done: {payload.task_spec}"
            case CoreReported():
                if payload.kind not in STORED_REPORT_KINDS:
                    return
                text = f"{payload.job_name}, {payload.kind}: {render_object(payload.body)}"
            case CoreStopped():
                for lane in [core_lane(payload.job_name), event.lane]:
                    self._close(lane)
                self.troubles.close(payload.job_id)
                result = payload.reason if payload.result is None else render_object(payload.result)
                text = f"{payload.job_name} {payload.outcome}: {result}"
        limit = self._lanes.of(core_lane(payload.job_name))
        self._add(event, "note", text, self._agent_id, "agent", payload.job_id, about, limit)
        if isinstance(payload, CoreStopped):
            self._lanes.take(event.lane, payload)

    def _skill(
        self, event: Event, payload: SkillStarted | SkillTransitioned | SkillStopped
    ) -> None:
        self._close(event.lane)
        match payload:
            case SkillStarted():
                self.unsettled.phases[event.lane] = f"{payload.skill}/{payload.state}"
            case SkillTransitioned():
                self.unsettled.phases[event.lane] = f"{payload.skill}/{payload.to_state}"
            case SkillStopped():
                self.unsettled.phases.pop(event.lane, None)

    def _run(self, event: Event, turn_id: str, *, begins: bool = True) -> ToolRun:
        """Return the lane's run; a new one if the last belongs to another turn or has reached its limit."""
        run = self.unsettled.runs.get(event.lane)
        if run is not None and (run.turn_id != turn_id or _is_long(run, begins=begins)):
            self._close(event.lane)
            run = None
        if run is None:
            phase = self.unsettled.phases.get(event.lane, "")
            run = ToolRun(turn_id, phase, event.rev, event.rev, event.at, event.at)
            self.unsettled.runs[event.lane] = run
        run.last_rev, run.ended_at = event.rev, event.at
        run.trust = min(run.trust, self._lanes.of(event.lane))
        return run

    def _close(self, lane: str) -> None:
        run = self.unsettled.runs.pop(lane, None)
        if run is None:
            return
        origin: Origin = "web" if run.outside else "tool"
        about = _about(lane, run.phase)
        about["tools"] = list(run.tools)
        span = (run.first_rev, run.last_rev, run.at, run.ended_at)
        # The calls are words of the agent, which may repeat what the lane had read before.
        trust = min(TRUST[origin], run.trust)
        self._emit(span, "tools", "\n".join(run.lines), None, origin, trust, about)

    def _add(
        self,
        event: Event,
        kind: UnitKind,
        text: str,
        speaker: str,
        origin: Origin,
        turn_id: str,
        about: JsonObject | None = None,
        limit: int = FULL_TRUST,
    ) -> None:
        trust = min(TRUST[origin], limit)
        if origin == "agent":
            # what an agent says after reading a page has no more trust than the page, also turns later
            trust = min(trust, self._trust_of(turn_id), self._lanes.of(event.lane))
        phase = self.unsettled.phases.get(event.lane, "")
        metadata = _about(event.lane, phase) | (about or {})
        span = (event.rev, event.rev, event.at, event.at)
        self._emit(span, kind, text, speaker, origin, trust, metadata)

    def _emit(
        self,
        span: tuple[int, int, str, str],
        kind: UnitKind,
        text: str,
        speaker: str | None,
        origin: Origin,
        trust: int,
        metadata: JsonObject,
    ) -> None:
        first_rev, last_rev, at, ended_at = span
        for part, piece in enumerate(split_text(text)):
            index = self.unsettled.next_index
            self.unsettled.next_index += 1
            self.units.append(
                Unit(
                    first_rev, last_rev, part, index, kind, piece, at, ended_at,
                    speaker, origin, trust, metadata,
                )
            )  # fmt: skip

    def _read(self, turn_id: str, trust: int) -> None:
        sources = self.unsettled.sources
        # the most recently used entry is last; the least recently used one is dropped
        sources[turn_id] = min(sources.pop(turn_id, trust), trust)
        while len(sources) > MAX_TRACKED_TURNS:
            del sources[next(iter(sources))]

    def _recall(self, turn_id: str) -> None:
        """Mark a turn in which memory was shown: its reply may repeat what is already stored."""
        reminded = self.unsettled.reminded
        if turn_id not in reminded:
            reminded[:] = [*reminded, turn_id][-MAX_TRACKED_TURNS:]

    def _trust_of(self, turn_id: str) -> int:
        return self.unsettled.sources.get(turn_id, TRUST["agent"])


def split_session(agent_id: str, events: Sequence[Event]) -> list[Unit]:
    """Return the units of a whole session."""
    splitter = UnitSplitter(agent_id, SplitterState())
    for event in events:
        splitter.take(event)
    splitter.finish()
    return splitter.units


def _is_long(run: ToolRun, *, begins: bool) -> bool:
    if run.chars >= RUN_HARD_CHARS:
        return True
    long = run.chars >= RUN_CHARS or run.calls >= RUN_CALLS
    return begins and long and not run.pending


def _about(lane: str, phase: str) -> JsonObject:
    about: JsonObject = {"lane": lane}
    if is_core(lane):
        about["job"] = lane.removeprefix(CORE_LANE_PREFIX)
    if phase:
        skill, _, state = phase.partition("/")
        about |= {"skill": skill, "phase": state}
    return about
