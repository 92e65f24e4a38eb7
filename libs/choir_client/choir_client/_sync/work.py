"""Operations, such as builds and updates, and costs."""

import time
from collections.abc import Generator
from contextlib import closing

from choir_client import operations
from choir_client._sync.connection import Connection
from choir_client.failures import parse_json
from choir_common.errors import DeadlineExceeded, Unavailable
from choir_common.i18n import _
from choir_common.wire.money import CostGroup, CostReport
from choir_common.wire.operations import OperationEvent, OperationView

OperationList = list[OperationView]
_POLL_S = 1.0
_SILENCE_S = 60.0
"""A stream sends a keepalive every 15 s."""
_MAX_RECONNECTS = 10


class Operations:
    """Work of Choir itself that takes a while."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, limit: int = 50) -> OperationList:
        """Return the newest operations."""
        params = {"limit": str(limit)}
        return (self._connection.call(operations.LIST_OPERATIONS, params=params)).items

    def get(self, operation_id: str) -> OperationView:
        """Return one operation. Raises NotFound."""
        names = {"operation_id": operation_id}
        return self._connection.call(operations.SHOW_OPERATION, names)

    def wait(self, operation_id: str, timeout_s: float = 600.0) -> OperationView:
        """Wait for the end of an operation and return it, failed or not.

        Raises DeadlineExceeded after `timeout_s`: the operation goes on.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            operation = self.get(operation_id)
            if operation.ended_at is not None:
                return operation
            if time.monotonic() > deadline:
                raise DeadlineExceeded(
                    _(
                        "The operation {operation_id} has not ended within {timeout_s:g} s. It goes on."
                    ).format(operation_id=operation_id, timeout_s=timeout_s)
                )
            time.sleep(_POLL_S)

    def follow(self, operation_id: str) -> Generator[OperationEvent]:
        """Yield the progress of an operation until its end; a lost connection is resumed.

        Raises Unavailable if control cannot be reached again, or if the stream breaks 10 times.
        """
        last_seq = 0
        for _attempt in range(_MAX_RECONNECTS):
            try:
                stream = self._connection.events(
                    operations.FOLLOW_OPERATION,
                    {"operation_id": operation_id},
                    last_id=last_seq,
                    silence_s=_SILENCE_S,
                )
                with closing(stream) as news:
                    for item in news:
                        if item is None:
                            continue
                        if item.event == "end":
                            return
                        event = parse_json(
                            item.data,
                            OperationEvent,
                            _("The stream of {operation_id}").format(operation_id=operation_id),
                        )
                        last_seq = event.seq
                        yield event
            except Unavailable:
                time.sleep(_POLL_S)
            # the stream may have been lost after the operation ended
            if (self.get(operation_id)).status != "running":
                return
        raise Unavailable(
            _(
                "{display_address} does not report the progress of {operation_id}. Try again: "
                "`choirctl operation show {operation_id}`."
            ).format(
                display_address=self._connection.target.display_address, operation_id=operation_id
            )
        )


class CostReports:
    """What calls of providers have cost."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def report(
        self,
        by: CostGroup = "day",
        *,
        since: str | None = None,
        until: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        job: str | None = None,
        model: str | None = None,
    ) -> CostReport:
        """Return the costs in US dollars by day, month, agent, session, job, model or kind.

        `since` and `until` are days (`2026-11-01`). `event` is for one session.
        """
        values = {
            "by": by,
            "since": since,
            "until": until,
            "agent": agent,
            "session": session,
            "job": job,
            "model": model,
        }
        params = {key: value for key, value in values.items() if value is not None}
        return self._connection.call(operations.SHOW_COST, params=params)
