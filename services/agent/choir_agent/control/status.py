"""Tell control what the lane is doing (REPORT_STATUS), at most once a second: it is for people.

Started by `app`. A short turn makes no report at all, so it costs nothing.
"""

import asyncio

import structlog

from choir_agent.control.client import Control
from choir_common.errors import ChoirError
from choir_common.wire.rpc import StatusReport

log = structlog.get_logger("choir.agent.status")

INTERVAL_S = 1.0


class StatusReporter:
    """Keeps the newest state of each lane and reports it when it has changed."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._newest: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._changed = asyncio.Event()

    def note(self, lane: str, state: str) -> None:
        """Remember a lane's state."""
        self._newest[lane] = state
        self._changed.set()

    async def run(self) -> None:
        """Report for ever; a report that fails is left to the next change."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(INTERVAL_S)
            self._changed.clear()
            for lane, state in list(self._newest.items()):
                if self._reported.get(lane) == state:
                    continue
                try:
                    await self._control.report_status(StatusReport(lane=lane, state=state))
                    self._reported[lane] = state
                except ChoirError as error:
                    log.info("status not reported", reason=error.message)
