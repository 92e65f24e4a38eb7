"""Fakes of control's ledger, for services that report what their provider calls used."""

from typing import TypedDict

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.clock import SystemClock
from choir_common.errors import Unavailable
from choir_common.wire.messages import Empty
from choir_common.wire.money import (
    MoneyReserved,
    ReleaseForMemory,
    ReserveForMemory,
    UsageReport,
    UsageReports,
)
from choir_memory.usage.budget import ModelBudget
from choir_memory.usage.reporter import UsageReporter


class RecordingLedger:
    """Stores reports; while it is down, it stores them and loses the response."""

    def __init__(self) -> None:
        self.reports: list[UsageReport] = []
        self.is_down = False
        self.reserved: list[ReserveForMemory] = []
        self.released: list[str] = []
        self.refusal: MoneyReserved | None = None
        """The answer to requests for money."""
        self.completion_tokens: int | None = None
        """The limit of an output that is reserved; None: it needs none."""

    async def report_usage(self, reports: UsageReports) -> None:
        self.reports += reports.reports
        if self.is_down:
            raise Unavailable("down")

    async def reserve_money(self, request: ReserveForMemory) -> MoneyReserved:
        self.reserved.append(request)
        if self.refusal is not None:
            return self.refusal
        return MoneyReserved(
            reservation=request.reservation, completion_tokens=self.completion_tokens
        )

    async def release_money(self, request: ReleaseForMemory) -> None:
        self.released.append(request.reservation)


def control_endpoints(ledger: RecordingLedger) -> tuple[Endpoint, ...]:
    """Return control's endpoints for usage and money, for a memory service without control."""

    async def report(reports: UsageReports) -> Empty:
        await ledger.report_usage(reports)
        return Empty()

    async def release(request: ReleaseForMemory) -> Empty:
        await ledger.release_money(request)
        return Empty()

    return (
        Endpoint(subjects.report_usage(), UsageReports, report),
        Endpoint(subjects.reserve_money(), ReserveForMemory, ledger.reserve_money),
        Endpoint(subjects.release_money(), ReleaseForMemory, release),
    )


class Metering(TypedDict):
    """What a language model of memory charges and asks."""

    usage: UsageReporter
    budget: ModelBudget


def make_metering(ledger: RecordingLedger | None = None) -> Metering:
    """Return the arguments of a language model: its reporter and its budget."""
    ledger = ledger or RecordingLedger()
    return {"usage": make_reporter(ledger), "budget": ModelBudget(ledger, SystemClock())}


def make_reporter(ledger: RecordingLedger | None = None) -> UsageReporter:
    """Return a reporter that sends to the ledger when `send` is called."""
    return UsageReporter(ledger or RecordingLedger(), SystemClock())
