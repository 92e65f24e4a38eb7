"""Heartbeats to control: at once when the log grew, one in flight, and at least one per interval.

The arbiter awaits `durable` before an effect. A batch with an unknown outcome is sent again unchanged, so
that control sees it either as new or as a repetition.
"""

import asyncio
from typing import Protocol

import structlog

from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_log import LogEntry, SessionLog
from choir_common.backoff import Backoff
from choir_common.clock import Clock
from choir_common.errors import ChoirError, Fenced, TooLarge, Unauthorized
from choir_common.eventlog.chain import LogHead
from choir_common.wire.model import format_log_time
from choir_common.wire.rpc import HeartbeatRequest

log = structlog.get_logger("choir.agent.replication")

MAX_EVENTS = 500
MAX_BYTES = 600_000


class HeartbeatSettings(Protocol):
    """The settings that heartbeats depend on; control announces newer ones in its responses."""

    @property
    def version(self) -> int: ...

    def heartbeat_interval_s(self) -> float: ...

    def mark_stale(self) -> None: ...


class LogReplicator:
    """The only writer of this session's durable log."""

    def __init__(
        self,
        *,
        control: ControlClient,
        session_log: SessionLog,
        settings: HeartbeatSettings,
        clock: Clock,
        agent_id: str,
        epoch: int,
    ) -> None:
        self._control = control
        self._log = session_log
        self._clock = clock
        self._agent_id = agent_id
        self._epoch = epoch
        self._settings = settings
        # The restored log came from control, so it is durable.
        self._durable_head = session_log.head
        self._max_bytes = MAX_BYTES
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def acked_rev(self) -> int:
        """The last revision that is known to be durable."""
        return self._durable_head.rev

    async def durable(self, rev: int) -> None:
        """Wait until `rev` is durable, without a time limit."""
        if rev <= self._durable_head.rev:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((rev, waiter))
        await waiter

    async def run(self) -> None:
        """Send heartbeats until cancelled.

        Raises Fenced or Unauthorized if this session is no longer ours.
        """
        while True:
            self._log.has_new_events.clear()
            # Cleared first: an event after that sets it again, so none is missed.
            if self._durable_head.rev == self._log.head.rev:
                await self._wait_for_growth()
                self._log.has_new_events.clear()
            await self._deliver()

    async def _wait_for_growth(self) -> None:
        try:
            async with asyncio.timeout(self._settings.heartbeat_interval_s()):
                await self._log.has_new_events.wait()
                # A lane that has just written goes first: it may be about to call its model.
                await asyncio.sleep(0)
        except TimeoutError:
            return

    async def _deliver(self) -> None:
        batch = self._next_batch()
        backoff, failures = Backoff(), 0
        while True:
            try:
                answer = await self._control.heartbeat(
                    self._request(batch), [entry.wire for entry in batch]
                )
                break
            except (Fenced, Unauthorized) as error:
                log.warning(
                    "heartbeat rejected; the session is over", code=error.code, error=error.message
                )
                raise
            except TooLarge:
                # A batch has at least one event, so halving ends at a batch that cannot be smaller.
                self._max_bytes = max(self._max_bytes // 2, 1)
                batch = self._next_batch()
                log.warning("heartbeat too large; sending a smaller batch", events=len(batch))
            except ChoirError as error:
                failures += 1
                log.warning("heartbeat failed; retrying", error=error.message)
            await asyncio.sleep(backoff.pause_s())
        if failures:
            log.info("heartbeats are acknowledged again", failures=failures)
        self._acknowledge(batch, answer.ack_rev)
        if answer.config_version_latest != self._settings.version:
            self._settings.mark_stale()

    def _next_batch(self) -> tuple[LogEntry, ...]:
        return self._log.events_after(self._durable_head.rev, MAX_EVENTS, self._max_bytes)

    def _request(self, batch: tuple[LogEntry, ...]) -> HeartbeatRequest:
        new = LogHead(batch[-1].rev, batch[-1].hash) if batch else self._durable_head
        return HeartbeatRequest(
            agent_id=self._agent_id,
            epoch=self._epoch,
            base_rev=self._durable_head.rev,
            new_rev=new.rev,
            config_version=self._settings.version,
            hash_prev=self._durable_head.hash,
            hash_new=new.hash,
            timestamp=format_log_time(self._clock.now()),
        )

    def _acknowledge(self, batch: tuple[LogEntry, ...], ack_rev: int) -> None:
        if ack_rev <= self._durable_head.rev:
            return
        for entry in batch:
            # The acknowledged event gives the hash of the new durable head.
            if entry.rev == ack_rev:
                self._durable_head = LogHead(entry.rev, entry.hash)
        self._log.drop_durable(self._durable_head.rev)
        still = []
        for rev, waiter in self._waiters:
            if rev > self._durable_head.rev:
                still.append((rev, waiter))
            elif not waiter.done():  # a cancelled waiter is done already
                waiter.set_result(None)
        self._waiters = still
