"""Reporter of the lanes' states to control (REPORT_STATUS), at most once a second.

Reports are for display only; a short turn sends none.
"""

import asyncio
from typing import Protocol

import structlog

from choir_agent.control_client.control_client import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.rpc import StatusRequest

log = structlog.get_logger("choir.agent.status")

INTERVAL_S = 1.0


class StatusDescriber(Protocol):
    """Builder of complete status reports."""

    def describe(self, lane: str, state: str) -> StatusRequest: ...


class StatusReporter:
    """Tracker of each lane's newest state; sends changes to control."""

    def __init__(self, control: ControlClient, describer: StatusDescriber) -> None:
        self._control = control
        self._describer = describer
        self._states: dict[str, str] = {}
        self._final_lanes: set[str] = set()
        self._sent_reports: dict[str, StatusRequest] = {}
        self._changed = asyncio.Event()

    def record_state(self, lane: str, state: str, *, final: bool = False) -> None:
        """Record a lane's state; a lane that has ended is reported a last time and then removed."""
        self._states[lane] = state
        (self._final_lanes.add if final else self._final_lanes.discard)(lane)
        self._changed.set()

    def lock_waits_changed(self) -> None:
        """Report all lanes again: one of them began to wait for a lock, or no longer waits."""
        self._changed.set()

    def servers_changed(self) -> None:
        """Report all lanes again: the state of an MCP server has changed."""
        self._changed.set()

    def connection_lost(self) -> None:
        """Report all lanes again, even unchanged: a restarted control does not know them."""
        self._sent_reports.clear()
        self._changed.set()

    async def run(self) -> None:
        """Send reports until cancelled; a failed report is not repeated before the next change."""
        while True:
            await self._changed.wait()
            # Collects the changes of one second in one report.
            await asyncio.sleep(INTERVAL_S)
            self._changed.clear()
            for lane, state in list(self._states.items()):
                await self._report(lane, state)

    async def _report(self, lane: str, state: str) -> None:
        report = self._describer.describe(lane, state)
        if self._sent_reports.get(lane) == report:
            return
        try:
            await self._control.report_status(report)
            self._sent_reports[lane] = report
        except ChoirError as error:
            log.info("status not reported", error=error.message)
        if lane in self._final_lanes and self._states.get(lane) == state:
            self._states.pop(lane, None)
            self._sent_reports.pop(lane, None)
            self._final_lanes.discard(lane)
