"""Working memory, which routes the log's events to the windows of the lanes, and snapshots of the state.

Snapshots at regular intervals bound the recovery time: after a crash, control sends the log's tail from
`window_from` of the newest snapshot.
"""

import orjson

from choir_agent.log.committed_event import CommittedEvent, original_of
from choir_agent.log.session_log import SessionLog
from choir_agent.log.session_state import dump_state, load_state
from choir_agent.working_memory import window_links
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.token_estimator import TokenEstimator
from choir_common.lanes import EDGE_LANE, core_lane, edge_lane_of, is_edge
from choir_common.wire.events import (
    AttachmentsRead,
    CarriedEvent,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    MemoryCompacted,
    ModelOutput,
    PictureDescribed,
    RemindersAdded,
    Reply,
    ReportBegun,
    SkillStopped,
    Snapshot,
    ToolResultCommitted,
    TurnParked,
    TurnUnparked,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject


class WorkingMemory:
    """One window for the lane of each conversation and one for each open core job."""

    def __init__(self) -> None:
        self._windows = {EDGE_LANE: LaneWindow(EDGE_LANE)}
        self.token_estimator = TokenEstimator()
        self.snapshot_rev = 0
        """Revision of the newest snapshot."""

    def on_event(self, event: CommittedEvent) -> None:
        """Add the next event of the log; events that prompts do not need are ignored."""
        payload = event.payload
        match payload:
            case CarriedEvent():
                self.on_event(original_of(event, payload))
            case UserMessageStarted() | ReportBegun():
                self._edge(event.lane).start_turn(payload.turn_id, event)
            case TurnParked():
                self._edge(event.lane).park(payload.turn_id)
            case TurnUnparked():
                self._edge(event.lane).unpark(payload.turn_id)
            case RemindersAdded() | AttachmentsRead():
                self._edge(event.lane).attach_notes(payload)
            case PictureDescribed():
                self._add_description(event.lane, payload, event)
            case CoreStarted():
                self._begin_job(payload, event)
            case CoreStopped():
                self._windows.pop(core_lane(payload.job_name), None)
                self.token_estimator.forget(core_lane(payload.job_name))
            case ModelOutput():
                self._add(event.lane, payload.turn_id, event)
                self.token_estimator.record_token_count(event.lane, payload.prompt_tokens)
            case Reply(from_lane=source) if source:
                self._edge(event.lane).add_message_from_elsewhere(event)
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

    def is_from_user(self, lane: str, url: str) -> bool:
        """Return whether a message of the user in a lane's window contains exactly this URL."""
        window = self._windows.get(lane)
        return window is not None and url in window_links.written_by_user(window)

    def is_link(self, lane: str, url: str) -> bool:
        """Return whether a page, a mail or search results in a lane's window contain exactly this URL."""
        window = self._windows.get(lane)
        return window is not None and url in window_links.read_outside(window)

    def hosts_of_user(self) -> tuple[str, ...]:
        """Return the hosts that the user's messages in any window name."""
        windows = self._windows.values()
        return tuple(host for window in windows for host in window_links.hosts_of_user(window))

    def hosts_of_search(self) -> tuple[str, ...]:
        """Return the hosts of the search results in any window."""
        windows = self._windows.values()
        return tuple(host for window in windows for host in window_links.hosts_of_search(window))

    def hosts_refused_before(self, lane: str, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return the new hosts to which an equal call in a lane's window tried to connect."""
        window = self._windows.get(lane)
        if window is None:
            return ()
        return window_links.hosts_refused_before(window, tool, arguments)

    def known_recipients(self) -> tuple[str, ...]:
        """Return the mail addresses that the user's messages name, and those to which mail was sent."""
        windows = self._windows.values()
        return tuple(name for window in windows for name in window_links.known_recipients(window))

    def oldest_needed_rev(self, next_rev: int) -> int:
        """Return the revision of the oldest event that is needed to rebuild all windows."""
        firsts = (window.first_rev for window in self._windows.values())
        return min((rev for rev in firsts if rev is not None), default=next_rev)

    def _edge(self, lane: str) -> LaneWindow:
        """Return the window of a conversation, which is created with the first event of its lane."""
        edge = edge_lane_of(lane)
        if edge not in self._windows:
            self._windows[edge] = LaneWindow(edge)
        return self._windows[edge]

    def _begin_job(self, started: CoreStarted, event: CommittedEvent) -> None:
        lane = core_lane(started.job_name)
        window = LaneWindow(lane)
        window.start_turn(started.job_id, event)
        self._windows[lane] = window

    def _add(self, lane: str, turn_id: str | None, event: CommittedEvent) -> None:
        if lane in self._windows:
            self._windows[lane].add_event(turn_id, event)
        elif turn_id is not None:
            # The job began before the tail; the next snapshot contains its briefing.
            window = LaneWindow(lane)
            window.start_turn(turn_id, CommittedEvent(0, "", lane, event.at, event.payload))
            window.add_event(turn_id, event)
            self._windows[lane] = window

    def _add_description(
        self, lane: str, description: PictureDescribed, event: CommittedEvent
    ) -> None:
        window = self._windows.get(lane)
        turn = window.find_turn(description.turn_id) if window is not None else None
        if window is not None and turn is not None and turn.has_attachment(description.path):
            window.attach_notes(description)
        else:
            self._add(lane, description.turn_id, event)

    def _inject(self, injected: InjectedInstruction, event: CommittedEvent) -> None:
        if not is_edge(injected.target) or injected.turn_id is not None:
            self._add(injected.target, injected.turn_id, event)
            return
        # The edge lane is idle: the text forms a turn of its own until the next turn reads it.
        self._edge(injected.target).start_turn(f"injected:{event.rev}", event)

    def _restore_jobs(self, snapshot: Snapshot) -> None:
        jobs = load_state(snapshot.state).jobs
        open_lanes = {job.lane for job in jobs}
        for lane in [
            lane for lane in self._windows if not is_edge(lane) and lane not in open_lanes
        ]:
            del self._windows[lane]
        for job in jobs:
            window = self._windows.setdefault(job.lane, LaneWindow(job.lane))
            if window.turns and isinstance(window.turns[0].head.payload, CoreStarted):
                continue
            head = CommittedEvent(0, "", job.lane, job.started_at, job.briefing)
            if window.turns:
                window.turns[0].head = head
            else:
                window.start_turn(job.turn_id, head)


SNAPSHOT_INTERVAL = 200
LANE = "session"
MAX_SNAPSHOT_BYTES = 900_000
"""Bytes. The state of open jobs and turns may be larger than an event should be."""
RETRY_INTERVAL = 20
"""Events until the next attempt, if the state was too large."""


class SnapshotWriter:
    """Writer of due snapshots."""

    def __init__(self, memory: WorkingMemory, every: int = SNAPSHOT_INTERVAL) -> None:
        self._memory = memory
        self._every = every
        self._not_before = 0

    def follow(self, session_log: SessionLog) -> None:
        """Append a snapshot if one is due and the session has not ended."""
        state = session_log.state
        due_at = max(self._memory.snapshot_rev + self._every, self._not_before)
        if state.rev < due_at or state.stopped:
            return
        dumped = dump_state(state)
        if len(orjson.dumps(dumped)) > MAX_SNAPSHOT_BYTES:
            self._not_before = state.rev + RETRY_INTERVAL
            return
        window_from = self._memory.oldest_needed_rev(state.rev + 1)
        session_log.append(LANE, Snapshot(state=dumped, window_from=window_from))
