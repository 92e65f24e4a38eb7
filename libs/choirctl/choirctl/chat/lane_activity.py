"""Current activity of a session's lanes and core jobs, folded from its events; a line for each job event.

Pure. `follow` feeds it, `terminal_chat` shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError
from rich.cells import cell_len, set_cell_size

from choir_common.i18n import _
from choir_common.lane_text import outcome_text, report_kind_text
from choir_common.lanes import CORE_LANE_PREFIX, core_lane, is_core
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    Reply,
    ReportBegun,
    SessionAbandoned,
    SessionResumed,
    SessionStarted,
    SessionStopped,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
    parse_payload,
)
from choir_common.wire.rpc import StatusReport
from choirctl.chat.render import one_line
from choirctl.output.language import tr

MAX_LINES = 6  # on the screen; `choirctl status` lists more jobs
MAX_TEXT = 300
IDLE = "EDGE_IDLE"
# fields of a job's report that contain its text; the model chooses which one it sends
REPORT_TEXT_FIELDS = ("summary", "missing", "text")


@dataclass(slots=True)
class LaneActivity:
    """A busy lane: since when (monotonic seconds), its state, and the tools it waits for by call id."""

    since: float
    state: str = _("thinking")
    calls: dict[str, str] = field(default_factory=dict)

    @property
    def current_activity(self) -> str:
        """Return the newest tool that is running, else the state."""
        return next(reversed(self.calls.values()), self.state)


@dataclass(slots=True)
class LaneTracker:
    """The busy lanes of a session."""

    agent_id: str = ""
    busy: dict[str, LaneActivity] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    """The ids of all jobs in the log; the channel's progress card of such a job is a duplicate."""

    def start(self, agent_id: str, reports: Sequence[StatusReport], now: float) -> None:
        """Start with the lanes in the agent's newest heartbeat."""
        self.agent_id = agent_id
        self.busy = {
            report.lane: LaneActivity(now, report.state_label)
            for report in reports
            if report.state != IDLE
        }

    def clear(self) -> None:
        """Clear all lanes: the agent no longer runs, or its session ended."""
        self.agent_id = ""
        self.busy = {}

    def apply(self, event: Event, now: float) -> str | None:
        """Fold an event; return a line to show to the user, if there is one."""
        try:
            payload = parse_payload(event)
        except ValidationError:
            return None  # an event type that this version of choirctl does not know
        match payload:
            case UserMessageStarted():
                self.busy[event.lane] = LaneActivity(now)
            case ReportBegun():
                self.busy[event.lane] = LaneActivity(now, _("reporting"))
            case ToolCallRequested() as p:
                self.busy.setdefault(event.lane, LaneActivity(now)).calls[p.call_id] = p.tool
            case ToolResultCommitted() as p:
                if event.lane in self.busy:
                    self.busy[event.lane].calls.pop(p.call_id, None)
            # a notice or a message does not end the turn
            case Reply(kind="answer" | "error" | "report"):
                self.busy.pop(event.lane, None)
            case SessionStarted() | SessionResumed() | SessionStopped() | SessionAbandoned():
                self.busy = {}
            case CoreStarted() | CoreReported() | CoreStopped() as p:
                return self._of_job(p, now)
            case _:
                pass
        return None

    def lines(self, now: float, width: int) -> list[str]:
        """Return a line for each busy lane, truncated to `width` columns."""
        rows = [_line(name, lane, now) for name, lane in self.busy.items()]
        if len(rows) > MAX_LINES:
            rows = [
                *rows[: MAX_LINES - 1],
                _("and {count} more").format(count=len(rows) - MAX_LINES + 1),
            ]
        return [truncate_to_width(row, width) for row in rows]

    def _of_job(self, payload: CoreStarted | CoreReported | CoreStopped, now: float) -> str:
        lane = core_lane(payload.job_name)
        name = one_line(payload.job_name, 60)
        self.jobs.add(payload.job_id)
        match payload:
            case CoreStarted():
                self.busy[lane] = LaneActivity(now)
                return _("job {name} begins: {one_line}").format(
                    name=name, one_line=one_line(payload.task_spec, MAX_TEXT)
                )
            case CoreReported():
                return _("job {name}, {value}: {report_text}").format(
                    name=name,
                    value=report_kind_text(payload.kind),
                    report_text=_report_text(payload),
                )
            case CoreStopped():
                self.busy.pop(lane, None)
                how = outcome_text(payload.outcome)
                why = f": {one_line(payload.reason, MAX_TEXT)}" if payload.reason else ""
                return _("job {name} {how} after {duration_ms:.0f} s{why}").format(
                    name=name, how=how, duration_ms=payload.duration_ms / 1000, why=why
                )


def truncate_to_width(line: str, width: int) -> str:
    """Return a line truncated to `width` columns, with an ellipsis if it was cut."""
    line = tr(line)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def _line(name: str, lane: LaneActivity, now: float) -> str:
    who = (
        _("job {one_line}").format(one_line=one_line(name.removeprefix(CORE_LANE_PREFIX), 60))
        if is_core(name)
        else name
    )
    return f"{who}: {one_line(tr(lane.current_activity), 60)}, {max(0.0, now - lane.since):.0f} s"


def _report_text(report: CoreReported) -> str:
    for name in REPORT_TEXT_FIELDS:
        if report.body.get(name):
            return one_line(str(report.body[name]), MAX_TEXT)
    return one_line(", ".join(f"{k}: {v}" for k, v in report.body.items()), MAX_TEXT)
