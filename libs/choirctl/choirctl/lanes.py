"""Fold a session's events into what its lanes and jobs do right now, and the lines that tell of jobs.

Pure. Used by `watching`, which feeds it, and `talk`, which shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError
from rich.cells import cell_len, set_cell_size

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
    UserMsg,
    payload_of,
)
from choir_common.wire.rpc import StatusReport
from choirctl.spoken import one_line
from choirctl.views import CORE

EDGE = "edge"
MOST_LINES = 6  # of the screen; a crowd of jobs is for `choirctl status`
LONGEST_NEWS = 300
IDLE = "EDGE_IDLE"
# what a job says of itself, by the names a model gives it
SAYS = ("summary", "missing", "text")


@dataclass(slots=True)
class Lane:
    """One lane at work: the tools it waits for, by call."""

    since: float
    at: str = "thinking"
    calls: dict[str, str] = field(default_factory=dict)

    @property
    def doing(self) -> str:
        """Return its newest open tool, else what it is at."""
        return next(reversed(self.calls.values()), self.at)


@dataclass(slots=True)
class Lanes:
    """All lanes of a session that do something."""

    agent_id: str = ""
    busy: dict[str, Lane] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    """The ids of all jobs the log told of; a channel's card of one of them would tell it twice."""

    def begin(self, agent_id: str, reports: Sequence[StatusReport], now: float) -> None:
        """Begin with what the agent's newest heartbeat told."""
        self.agent_id = agent_id
        self.busy = {
            report.lane: Lane(now, report.state_word) for report in reports if report.state != IDLE
        }

    def end(self) -> None:
        """Nobody is there any more."""
        self.agent_id = ""
        self.busy = {}

    def take(self, event: Event, now: float) -> str | None:
        """Fold an event; return what a person should be told of it, if anything."""
        try:
            payload = payload_of(event)
        except ValidationError:
            return None  # of a Choir newer than this choirctl
        match payload:
            case UserMsg():
                self.busy[EDGE] = Lane(now)
            case ReportBegun():
                self.busy[EDGE] = Lane(now, "reporting")
            case ToolCallRequested() as p:
                self.busy.setdefault(event.lane, Lane(now)).calls[p.call_id] = p.tool
            case ToolResultCommitted() as p:
                if event.lane in self.busy:
                    self.busy[event.lane].calls.pop(p.call_id, None)
            case Reply(kind="answer" | "error" | "report"):
                self.busy.pop(EDGE, None)
            case SessionStarted() | SessionResumed() | SessionStopped() | SessionAbandoned():
                self.busy = {}
            case CoreStarted() | CoreReported() | CoreStopped() as p:
                return self._of_job(p, now)
            case _:
                pass
        return None

    def lines(self, now: float, width: int) -> list[str]:
        """Return a line for each lane at work, none wider than the terminal."""
        told = [_line(name, lane, now) for name, lane in self.busy.items()]
        if len(told) > MOST_LINES:
            told = [*told[: MOST_LINES - 1], f"and {len(told) - MOST_LINES + 1} more"]
        return [fitted(line, width) for line in told]

    def _of_job(self, payload: CoreStarted | CoreReported | CoreStopped, now: float) -> str:
        lane = f"{CORE}{payload.job_name}"
        name = one_line(payload.job_name, 60)
        self.jobs.add(payload.job_id)
        match payload:
            case CoreStarted():
                self.busy[lane] = Lane(now)
                return f"job {name} begins: {one_line(payload.task_spec, LONGEST_NEWS)}"
            case CoreReported():
                return f"job {name}, {payload.kind.replace('_', ' ')}: {_said(payload)}"
            case CoreStopped():
                self.busy.pop(lane, None)
                how = payload.outcome.replace("_", " ")
                why = f": {one_line(payload.reason, LONGEST_NEWS)}" if payload.reason else ""
                return f"job {name} {how} after {payload.duration_ms / 1000:.0f} s{why}"


def fitted(line: str, width: int) -> str:
    """Return a line that ends where the terminal does, and shows that it was cut."""
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def _line(name: str, lane: Lane, now: float) -> str:
    who = f"job {one_line(name.removeprefix(CORE), 60)}" if name.startswith(CORE) else name
    return f"{who}: {one_line(lane.doing, 60)}, {max(0.0, now - lane.since):.0f} s"


def _said(report: CoreReported) -> str:
    for name in SAYS:
        if report.body.get(name):
            return one_line(str(report.body[name]), LONGEST_NEWS)
    return one_line(", ".join(f"{k}: {v}" for k, v in report.body.items()), LONGEST_NEWS)
