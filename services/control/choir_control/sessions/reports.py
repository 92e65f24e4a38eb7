"""Remember what each lane last said it does (REPORT_STATUS). In memory: it is for people, not truth."""

from choir_common.wire.rpc import StatusReport
from choir_control.leases.store import Lease

MAX_LANES = 64


class StatusBoard:
    """The newest report of each lane, for the sessions that run."""

    def __init__(self) -> None:
        self._reports: dict[str, tuple[str, dict[str, StatusReport]]] = {}

    def post(self, lease: Lease, report: StatusReport) -> None:
        """Keep a lane's newest report; a new session of the agent starts with an empty board."""
        session_id, lanes = self._reports.get(lease.agent_id, ("", {}))
        if session_id != lease.session_id:
            lanes = {}
            self._reports[lease.agent_id] = (lease.session_id, lanes)
        lanes.pop(report.lane, None)
        lanes[report.lane] = report
        while len(lanes) > MAX_LANES:
            del lanes[next(iter(lanes))]

    def of(self, agent_id: str, session_id: str) -> tuple[StatusReport, ...]:
        """Return the reports of an agent's session."""
        known, lanes = self._reports.get(agent_id, ("", {}))
        return tuple(lanes.values()) if known == session_id else ()
