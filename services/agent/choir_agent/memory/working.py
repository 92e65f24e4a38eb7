"""Working memory: routes the log's events to the windows of the lanes.

Receives each committed event from the session's log, also during restore; read by `prompt` and
`compaction`.
"""

from choir_agent.log.committed import Committed, original_of
from choir_agent.log.state import EDGE, core_lane, load
from choir_agent.memory.tokens import TokenMeter
from choir_agent.memory.window import LaneWindow
from choir_common.wire.events import (
    CarriedEvent,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    MemoryCompacted,
    ModelOutput,
    Reminded,
    Reply,
    ReportBegun,
    SkillStopped,
    Snapshot,
    ToolResultCommitted,
    TurnParked,
    TurnUnparked,
    UserMsg,
)


class WorkingMemory:
    """One window for the edge lane and one for each open core job."""

    def __init__(self) -> None:
        self._windows = {EDGE: LaneWindow(EDGE)}
        self.meter = TokenMeter()
        self.snapshot_rev = 0
        """Revision of the newest snapshot."""

    def take_in(self, event: Committed) -> None:
        """Add the next event of the log; events that prompts do not need are ignored."""
        payload = event.payload
        match payload:
            case CarriedEvent():
                self.take_in(original_of(event, payload))
            case UserMsg() | ReportBegun():
                self._windows[EDGE].begin(payload.turn_id, event)
            case TurnParked():
                self._windows[EDGE].park(payload.turn_id)
            case TurnUnparked():
                self._windows[EDGE].unpark(payload.turn_id)
            case Reminded():
                self._windows[EDGE].remind(payload)
            case CoreStarted():
                self._begin_job(payload, event)
            case CoreStopped():
                self._windows.pop(core_lane(payload.job_name), None)
                self.meter.forget(core_lane(payload.job_name))
            case ModelOutput():
                self._add(event.lane, payload.turn_id, event)
                self.meter.counted(event.lane, payload.prompt_tokens)
            case ToolResultCommitted() | Reply() | SkillStopped():
                self._add(event.lane, payload.turn_id, event)
            case InjectedInstruction(target=target):
                self._inject(payload, event)
            case MemoryCompacted(target=target, through_rev=through_rev, failed=""):
                if target in self._windows:
                    self._windows[target].roll_off(through_rev)
            case Snapshot():
                self.snapshot_rev = event.rev
                self._restore_jobs(payload)
            case _:
                pass

    def window(self, lane: str) -> LaneWindow | None:
        """Return a lane's window, or None if there is no such lane."""
        return self._windows.get(lane)

    def lanes(self) -> tuple[str, ...]:
        """Return the lanes that have a window."""
        return tuple(self._windows)

    def needed_from(self, next_rev: int) -> int:
        """Return the revision of the oldest event that is needed to rebuild all windows."""
        firsts = (window.first_rev for window in self._windows.values())
        return min((rev for rev in firsts if rev is not None), default=next_rev)

    def _begin_job(self, started: CoreStarted, event: Committed) -> None:
        lane = core_lane(started.job_name)
        window = LaneWindow(lane)
        window.begin(started.job_id, event)
        self._windows[lane] = window

    def _add(self, lane: str, turn_id: str | None, event: Committed) -> None:
        if lane in self._windows:
            self._windows[lane].add(turn_id, event)
        elif turn_id is not None:
            # The job began before the tail; the next snapshot contains its briefing.
            window = LaneWindow(lane)
            window.begin(turn_id, Committed(0, "", lane, event.at, event.payload))
            window.add(turn_id, event)
            self._windows[lane] = window

    def _inject(self, injected: InjectedInstruction, event: Committed) -> None:
        if injected.target != EDGE or injected.turn_id is not None:
            self._add(injected.target, injected.turn_id, event)
            return
        # The edge lane is idle: the text forms a turn of its own until the next turn reads it.
        self._windows[EDGE].begin(f"injected:{event.rev}", event)

    def _restore_jobs(self, snapshot: Snapshot) -> None:
        jobs = load(snapshot.state).jobs
        for lane in self._windows.keys() - {EDGE, *(job.lane for job in jobs)}:
            del self._windows[lane]
        for job in jobs:
            window = self._windows.setdefault(job.lane, LaneWindow(job.lane))
            if window.turns and isinstance(window.turns[0].head.payload, CoreStarted):
                continue
            head = Committed(0, "", job.lane, job.started_at, job.briefing)
            if window.turns:
                window.turns[0].head = head
            else:
                window.begin(job.turn_id, head)
