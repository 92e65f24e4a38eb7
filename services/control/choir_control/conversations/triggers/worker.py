"""The worker that gives deliveries of triggers to their agents, and stores how they ended."""

import asyncio
import contextlib
from datetime import datetime

import structlog

from choir_common.clock import Clock
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import UserMessageSignal
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.texts import format_moment
from choir_control.conversations.triggers.records import WaitingDelivery, trigger_names
from choir_control.conversations.triggers.store import TriggerStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

log = structlog.get_logger("choir.triggers")

POLL_S = 30.0
OPEN_POLL_S = 2.0
"""Pause between two looks while deliveries are open: other parts of control store answers."""
RETRY_S = 1.0
SOURCES = {"hook": "webhook", "folder": "folder", "mail": "mail"}


class TriggerWorker:
    """Worker that starts deliveries in the order in which they arrived."""

    def __init__(
        self,
        store: TriggerStore,
        *,
        configuration: ConfigService,
        notifier: Notifier,
        signal_locks: SignalLocks,
        clock: Clock,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._notifier = notifier
        self._signal_locks = signal_locks
        self._clock = clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look at the deliveries now, because one was stored."""
        self._wake.set()

    async def run(self) -> None:
        """Start deliveries until cancelled."""
        while True:
            self._wake.clear()
            wait_s = RETRY_S
            try:
                wait_s = await self.tick()
            except (Unavailable, OutcomeUnknown) as error:
                log.warning("triggers wait for the database", error=error.message)
            except Exception:  # outermost loop of the worker: retry
                log.exception("deliveries could not be started")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def tick(self) -> float:
        """Store how deliveries ended, start those that can; return the seconds until the next look."""
        now = self._clock.now()
        await self._store.settle(now)
        await self._store.fail_removed(trigger_names(self._configuration.current.config), now)
        for delivery in await self._store.list_waiting():
            await self._start(delivery, now)
        return OPEN_POLL_S if await self._store.count_open() else POLL_S

    async def _start(self, delivery: WaitingDelivery, now: datetime) -> None:
        snapshot, dm = self._configuration.current, delivery.target.dm
        gateway = snapshot.gateway_of(dm)
        if gateway is None:
            reason = _("there is no conversation {dm!r} in config.json").format(dm=dm)
            await self._store.fail(delivery.delivery_id, reason, now)
            return
        zone = snapshot.timezone_for(delivery.target.agent_id, dm)
        signal = _signal(delivery, zone, now).model_dump_json()
        # Signals of a DM must be committed in the order of their numbers.
        async with self._signal_locks.of(dm):
            started = await self._store.start(delivery, gateway=gateway, signal=signal, now=now)
        if started:
            self._notifier.notify(dm)


def _signal(delivery: WaitingDelivery, zone: str, now: datetime) -> UserMessageSignal:
    target = delivery.target
    source = f"{SOURCES[target.type]} {target.name}"
    return UserMessageSignal(
        inbox_id=delivery.delivery_id,
        dm=target.dm,
        text=delivery.text,
        sent_at=now,
        wake_up=WakeUp(
            summary=f"{source}, at {format_moment(delivery.received_at.replace(microsecond=0), zone)}",
            by_agent=False,
            as_job=target.kind == "job",
            outside=source,
        ),
    )
