"""Split a session's log into the units that search ranks: messages, runs of tool calls, jobs. Pure.

Units depend on the events only: the same units result however the log
is divided into pages and however often a page is sent. Unfinished state is stored in `SplitterState`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from choir_common.eventlog.tool_results import question_trust, returns_outside_text
from choir_common.lanes import (
    CORE_LANE_PREFIX,
    core_lane,
    dm_of,
    is_core,
)
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
    SummaryTopic,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
    parse_carried_payload,
    parse_payload,
)
from choir_common.wire.model import JsonObject
from choir_memory.documents.model import TRUST, Conversations, Origin, UnitKind
from choir_memory.sessions.failure_tracker import FailureTracker
from choir_memory.sessions.lane_trust import FULL_TRUST, LaneTrust
from choir_memory.sessions.rendering import (
    is_unrecorded,
    remove_nul,
    render_call,
    render_object,
    render_result,
    split_text,
)
from choir_memory.sessions.splitter_state import SplitterState, ToolRun
from choir_memory.sessions.trust import MEMORY_QUERY, trust_of_result

RUN_CHARS = 4_000
RUN_CALLS = 8
"""A run of this many calls, or `RUN_CHARS` characters, is closed when none of its calls is pending."""
RUN_HARD_CHARS = 16_000
"""A run of this length is closed in any case."""
MAX_TRACKED_JOBS = 256
"""Jobs whose conversation is known; names of jobs are used again."""
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
    conversations: Conversations = None


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """The agent's summary of a conversation when the session ended."""

    summary: str
    topics: tuple[tuple[str, str], ...]
    """Pairs of title and text."""
    further: Mapping[str, "AgentSummary"] = field(default_factory=dict)
    """Those of further conversations by name, beside the summary of the home conversation."""


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
        if isinstance(payload, CoreStarted):
            dms, lane = self.unsettled.dm_by_core, core_lane(payload.job_name)
            dms.pop(lane, None)  # the newest come last
            dms[lane] = payload.dm
            while len(dms) > MAX_TRACKED_JOBS:
                del dms[next(iter(dms))]
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
                self.ending = self._ending_of(payload)
            case _:
                pass

    def finish(self) -> None:
        """Close all open runs, because the session has ended."""
        for lane in list(self.unsettled.runs):
            self._close(lane)
        self.troubles.end_session()

    def _ending_of(self, stopped: SessionStopped) -> AgentSummary:
        """Return the agent's summaries, each with its own conversation."""
        home_dm = self.unsettled.home_dm
        further = {
            dm: AgentSummary(it.summary, _pairs(it.topics))
            for it in stopped.conversations
            if (dm := dm_of(it.lane, home_dm)) and dm != home_dm and it.summary.strip()
        }
        return AgentSummary(stopped.summary or "", _pairs(stopped.topics), further)

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
            case UserMessageStarted(wake_up=wake_up) if wake_up is not None and wake_up.quiet:
                self._close(event.lane)
            case UserMessageStarted(wake_up=wake_up) if wake_up is not None:
                self._close(event.lane)
                is_outside = bool(wake_up.outside) and wake_up.question is None
                origin: Origin = "web" if is_outside else "agent"
                speaker = "trigger" if is_outside else wake_up.outside or "schedule"
                limit = question_trust(wake_up.question) if wake_up.question else FULL_TRUST
                turn = payload.turn_id
                self._add(event, "note", payload.text, speaker, origin, turn, limit=limit)
            case UserMessageStarted():
                self._close(event.lane)
                self._add_user_text(event, payload)
            case InjectedInstruction(by="user"):
                self._add_user_text(event, payload)
            case Reply(kind="silent"):
                self._close(event.lane)
                self.unsettled.sources.pop(payload.turn_id or "", None)
                self.troubles.close(payload.turn_id or "")
            case Reply():
                self._close(event.lane)
                kind: UnitKind = "turn" if payload.kind in ("answer", "report") else "note"
                turn = payload.turn_id or ""
                about: JsonObject = {"reminded": True} if turn in self.unsettled.reminded else {}
                self._add(event, kind, payload.text, self._agent_id, "agent", turn, about)
                self.unsettled.sources.pop(turn, None)
                self.troubles.close(turn)
            case SessionAbandoned():
                self._add(event, "note", payload.text, "choir", "agent", "", dm=payload.dm)
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

    def _add_user_text(
        self, event: Event, payload: UserMessageStarted | InjectedInstruction
    ) -> None:
        """Add what a user wrote; in a group under the name of who wrote it."""
        who = payload.speaker if payload.speaker and payload.speaker.is_in_group else None
        speaker, turn_id = who.label if who else "user", payload.turn_id or ""
        # Everybody in a group may claim anything.
        limit = TRUST["web"] if who and who.is_outsider else FULL_TRUST
        self._add(event, "turn", payload.text, speaker, "user", turn_id, limit=limit)

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
        self.troubles.answer(
            payload,
            event.at,
            run.first_rev,
            lane_trust=lane_trust,
            conversations=self.unsettled.conversations_of(event.lane),
        )
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
        lane = core_lane(payload.job_name)
        limit = self._lanes.of(lane)
        self._add(
            event, "note", text, self._agent_id, "agent", payload.job_id, about, limit, lane=lane
        )
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
        text, conversations = "\n".join(run.lines), self.unsettled.conversations_of(lane)
        self._emit(span, "tools", text, None, origin, trust, about, conversations)

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
        *,
        lane: str = "",
        dm: str = "",
    ) -> None:
        """Add a text of an event; `lane` or `dm` say what it is about, if not the event's own lane."""
        trust = min(TRUST[origin], limit)
        if origin == "agent":
            # what an agent says after reading a page has no more trust than the page, also turns later
            trust = min(trust, self._trust_of(turn_id), self._lanes.of(event.lane))
        phase = self.unsettled.phases.get(event.lane, "")
        metadata = _about(event.lane, phase) | (about or {})
        span = (event.rev, event.rev, event.at, event.at)
        conversations = (dm,) if dm else self.unsettled.conversations_of(lane or event.lane)
        self._emit(span, kind, text, speaker, origin, trust, metadata, conversations)

    def _emit(
        self,
        span: tuple[int, int, str, str],
        kind: UnitKind,
        text: str,
        speaker: str | None,
        origin: Origin,
        trust: int,
        metadata: JsonObject,
        conversations: Conversations,
    ) -> None:
        first_rev, last_rev, at, ended_at = span
        for part, piece in enumerate(split_text(text)):
            index = self.unsettled.next_index
            self.unsettled.next_index += 1
            self.units.append(
                Unit(
                    first_rev, last_rev, part, index, kind, piece, at, ended_at,
                    speaker, origin, trust, metadata, conversations,
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


def _pairs(topics: Sequence[SummaryTopic]) -> tuple[tuple[str, str], ...]:
    return tuple((topic.title, topic.text) for topic in topics)


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
