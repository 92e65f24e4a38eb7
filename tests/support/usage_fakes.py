"""Fakes of control's ledger, for services that report what their provider calls used."""

from choir_common.clock import SystemClock
from choir_common.errors import Unavailable
from choir_common.wire.money import UsageReport, UsageReports
from choir_memory.usage.reporter import UsageReporter


class RecordingLedger:
    """Stores reports; while it is down, it stores them and loses the response."""

    def __init__(self) -> None:
        self.reports: list[UsageReport] = []
        self.is_down = False

    async def report_usage(self, reports: UsageReports) -> None:
        self.reports += reports.reports
        if self.is_down:
            raise Unavailable("down")


def make_reporter(ledger: RecordingLedger | None = None) -> UsageReporter:
    """Return a reporter that sends to the ledger when `send` is called."""
    return UsageReporter(ledger or RecordingLedger(), SystemClock())
