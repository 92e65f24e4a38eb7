"""Withdrawal of requests whose call has ended: nobody is asked any more about what was cancelled."""

import asyncio

import structlog

from choir_common.errors import ChoirError, Conflict
from choir_control.approvals.service import ApprovalService
from choir_control.approvals.store import ApprovalStore
from choir_control.approvals.texts import DECIDED_BY_END
from choir_control.log.eventlog.call_results import CallResultQueue, SessionCall

log = structlog.get_logger("choir.approvals")

RETRY_S = 1.0


class ApprovalWithdrawal:
    """Worker that closes open requests. What it misses expires by itself."""

    def __init__(
        self, store: ApprovalStore, *, approvals: ApprovalService, results: CallResultQueue
    ) -> None:
        self._store, self._approvals, self._results = store, approvals, results

    async def run(self) -> None:
        """Close requests until cancelled."""
        while True:
            for call in await self._results.wait():
                try:
                    await self._withdraw(call)
                except ChoirError as error:
                    log.warning("request not withdrawn", call_id=call[1], error=error.message)
                    await asyncio.sleep(RETRY_S)
                except Exception:  # outermost loop of the worker
                    log.exception("request not withdrawn", call_id=call[1])
                    await asyncio.sleep(RETRY_S)

    async def _withdraw(self, call: SessionCall) -> None:
        for approval_id in await self._store.list_open_of_call(*call):
            try:
                await self._approvals.decide(approval_id, "expired", DECIDED_BY_END)
            except Conflict:
                log.info("decided before its call ended", approval_id=approval_id)
