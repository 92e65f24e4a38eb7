"""In-memory store of each lane's last REPORT_STATUS, for display only."""

from dataclasses import dataclass, field

from choir_common.clock import Clock
from choir_common.wire.rpc import StatusReport, StatusRequest
from choir_control.log.leases.store import Lease

MAX_LANES = 200
# Final states of a core job.
FINAL_STATES = ("CORE_COMPLETED", "CORE_TERMINATED")
# Keep the report of an ended job, so that an operator who looks just afterwards sees its outcome.
KEEP_ENDED_S = 60.0


@dataclass(slots=True)
class _EpochReports:
    """Lane reports of one epoch, and the end times of finished lanes."""

    session_id: str
    epoch: int
    reports: dict[str, StatusReport] = field(default_factory=dict)
    end_times: dict[str, float] = field(default_factory=dict)
    job_tools: tuple[str, ...] = ()


class LaneStatusRegistry:
    """Newest status report of each lane of the running sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._agents: dict[str, _EpochReports] = {}

    def post(self, lease: Lease, report: StatusRequest) -> None:
        """Store a lane's newest report; a new epoch starts without the reports of the last."""
        lanes = self._agents.get(lease.agent_id)
        if lanes is None or (lanes.session_id, lanes.epoch) != (lease.session_id, lease.epoch):
            lanes = self._agents[lease.agent_id] = _EpochReports(lease.session_id, lease.epoch)
        lanes.reports.pop(report.lane, None)
        lanes.end_times.pop(report.lane, None)
        lanes.reports[report.lane] = report
        lanes.job_tools = report.job_tools or lanes.job_tools
        if report.state in FINAL_STATES:
            lanes.end_times[report.lane] = self._clock.monotonic()
        self._forget_ended(lanes)
        while len(lanes.reports) > MAX_LANES:
            oldest = next(iter(lanes.reports))
            del lanes.reports[oldest]
            lanes.end_times.pop(oldest, None)

    def of(self, agent_id: str, session_id: str) -> tuple[StatusReport, ...]:
        """Return the reports of an agent's session; those of ended jobs expire."""
        lanes = self._agents.get(agent_id)
        if lanes is None or lanes.session_id != session_id:
            return ()
        self._forget_ended(lanes)
        return tuple(lanes.reports.values())

    def job_tools_of(self, agent_id: str, session_id: str) -> tuple[str, ...]:
        """Return the tools that core jobs of a session may use; empty if they were not reported yet."""
        lanes = self._agents.get(agent_id)
        return () if lanes is None or lanes.session_id != session_id else lanes.job_tools

    def _forget_ended(self, lanes: _EpochReports) -> None:
        before = self._clock.monotonic() - KEEP_ENDED_S
        for lane in [lane for lane, at in lanes.end_times.items() if at < before]:
            del lanes.reports[lane], lanes.end_times[lane]
