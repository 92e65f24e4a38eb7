"""Delivery worker of the outbox: one message at a time per DM, in order, many DMs at once.

A channel that detects repetitions by id (the console) simply receives an uncertain message again.
For other channels the row is marked before the attempt, so that a repetition after a crash is labelled
as one. See docs/design/channels.md.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from choir_common.clients.gateway import GatewayClient
from choir_common.errors import (
    ChoirError,
    Forbidden,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    TooLarge,
    Unavailable,
)
from choir_common.tracing import is_export_enabled, use_parent_span
from choir_common.wire.messages import DeliveryReceipt, OutboundMessage
from choir_control.configuration.current import ConfigService
from choir_control.conversations.outbox.queue import DeliveryQueue
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.workspaces.outgoing_files import OutgoingFiles

log = structlog.get_logger("choir.outbox")

CONCURRENT_DMS = 64
PAGE = 200
FIRST_WAIT_S = 0.1
MAX_WAIT_S = 2.0
# Channels that detect repetitions are retried soon. Others get the time that a slow API may take.
IDEMPOTENT_DEADLINE_S = 5.0
DEADLINE_S = 65.0
# The gateway may not have read a new DM yet.
UNKNOWN_DM_ATTEMPTS = 20


class DeliveryAnnouncer(Protocol):
    """Receiver of messages that were delivered, such as the one that notifies browsers."""

    def notify(self, message: OutboundMessage) -> None:
        """Take note of a delivered message; returns at once and raises nothing."""
        ...


class OutboxWorker:
    """Queues of undelivered messages by DM, and the tasks that deliver them."""

    def __init__(
        self,
        store: OutboxStore,
        *,
        gateway: GatewayClient,
        configuration: ConfigService,
        files: OutgoingFiles,
        observer: DeliveryAnnouncer,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._configuration = configuration
        self._files = files
        self._observer = observer
        self._queues: dict[str, DeliveryQueue] = {}
        self._newest_id = 0
        self._busy: set[str] = set()
        self._slots = asyncio.Semaphore(CONCURRENT_DMS)
        self._tasks: asyncio.TaskGroup | None = None

    def offer(self, messages: Sequence[OutboundMessage]) -> None:
        """Deliver rows that have just become durable."""
        for message in messages:
            queue = self._queue(message.dm)
            # A gap in the ids means that another append was assigned one and has not offered its
            # row yet. That row may have to go first, so read the table.
            queue.rescan = queue.rescan or message.outbox_id != self._newest_id + 1
            self._newest_id = max(self._newest_id, message.outbox_id)
            queue.offer(message)
            self._start(message.dm)

    def rescan(self, dm: str) -> None:
        """Read the table again before the next delivery to a DM."""
        self._queue(dm).rescan = True
        self._start(dm)

    async def run(self) -> None:
        """Deliver until cancelled, starting with the rows that an earlier run left."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for dm in await self._read_open_dms():
                    self._queue(dm).rescan = True
                for dm in list(self._queues):
                    self._start(dm)
                await asyncio.Event().wait()
            finally:
                # Rows inserted during the shutdown are delivered by the next run.
                self._tasks = None

    async def _read_open_dms(self) -> list[str]:
        while True:
            try:
                return await self._store.list_open_dms()
            except Unavailable:
                await asyncio.sleep(FIRST_WAIT_S)

    def _queue(self, dm: str) -> DeliveryQueue:
        return self._queues.setdefault(dm, DeliveryQueue())

    def _start(self, dm: str) -> None:
        if self._tasks is not None and dm not in self._busy:
            self._busy.add(dm)
            self._tasks.create_task(self._drain(dm), name=f"outbox {dm}")

    async def _drain(self, dm: str) -> None:
        structlog.contextvars.bind_contextvars(dm=dm)
        queue, failures = self._queue(dm), 0
        try:
            while not queue.idle:
                wait_s = await self._step(dm, queue, failures)
                failures = 0 if wait_s is None else failures + 1
                if wait_s is not None:
                    await asyncio.sleep(wait_s)
        finally:
            self._busy.discard(dm)

    async def _step(self, dm: str, queue: DeliveryQueue, failures: int) -> float | None:
        """Read the table or deliver one message; return the seconds to wait if that failed."""
        usual = min(MAX_WAIT_S, FIRST_WAIT_S * (1 << min(failures, 10)))
        try:
            # Delivered, but the database failed afterwards: store the receipt instead of sending
            # again.
            if queue.receipt is not None:
                await self._close(queue, queue.receipt)
            if queue.rescan:
                queue.rescan = False
                queue.add(await self._store.list_open(dm, PAGE))
            if queue.first is None:
                return None
            async with self._slots:
                return await self._deliver(queue, queue.first, failures, usual)
        except Unavailable as error:
            log.warning("outbox waits for the database", dm=dm, error=error.message)
            queue.rescan = queue.receipt is None
            return usual
        except Exception:  # outermost loop of a DM: retry
            log.exception("delivery failed", dm=dm)
            return MAX_WAIT_S

    async def _deliver(
        self, queue: DeliveryQueue, message: OutboundMessage, failures: int, usual: float
    ) -> float | None:
        structlog.contextvars.bind_contextvars(session=message.session_id, agent=message.agent_id)
        idempotent = self._is_idempotent(message.gateway)
        message = await self._find_edited(message)
        # From here on the message may reach the user, even if this process dies.
        if not idempotent:
            state = await self._store.mark_sending(
                message.outbox_id,
                message.maybe_repeated,
                is_group=self._configuration.current.people.is_group(message.dm),
            )
            if state is None:
                log.info("cancelled message not sent", outbox_id=message.outbox_id)
                queue.remove_first()
                return None
            message = message.model_copy(
                update={"partly_sent": state.partly_sent, "reply_to": state.reply_to}
            )
        try:
            receipt = await self._attempt(message, idempotent)
        except (InvalidRequest, Forbidden, TooLarge) as error:
            receipt = _undeliverable(message, error)
        except NotFound as error:
            # See UNKNOWN_DM_ATTEMPTS; later the DM counts as removed.
            if failures < UNKNOWN_DM_ATTEMPTS:
                return await self._record_not_sent(message, idempotent, error, usual)
            receipt = _undeliverable(message, error)
        except OutcomeUnknown as error:
            return self._record_unknown(queue, message, error, usual)
        except (Unavailable, RateLimited) as error:
            wait_s = error.retry_after_s or usual
            return await self._record_not_sent(message, idempotent, error, wait_s)
        except (ChoirError, TimeoutError) as error:
            return self._record_unknown(queue, message, error, usual)
        queue.receipt = receipt
        await self._close(queue, receipt)
        return None

    async def _close(self, queue: DeliveryQueue, receipt: DeliveryReceipt) -> None:
        await self._store.store_receipt(receipt)
        if receipt.status != "delivered":
            log.warning("message undeliverable", outbox_id=receipt.outbox_id, detail=receipt.detail)
        first = queue.first
        queue.remove_first()
        if first is not None and receipt.status == "delivered":
            self._observer.notify(first)
        if first is not None and first.attachments:
            # users of such a channel download files whenever they like
            keep_copy = self._is_idempotent(first.gateway)
            await self._files.delete_delivered(first.outbox_id, keep_copy=keep_copy)

    def _is_idempotent(self, gateway_name: str) -> bool:
        gateway = self._configuration.current.config.gateways.get(gateway_name)
        return gateway is not None and gateway.channel.is_idempotent

    async def _attempt(self, message: OutboundMessage, idempotent: bool) -> DeliveryReceipt:
        parent = await self._trace_of(message)
        language = self._configuration.current.people.language_in(message.dm)
        message = message.model_copy(update={"language": language})
        async with asyncio.timeout(IDEMPOTENT_DEADLINE_S if idempotent else DEADLINE_S):
            with use_parent_span(parent):
                return await self._gateway.deliver(message)

    async def _find_edited(self, message: OutboundMessage) -> OutboundMessage:
        """Add the channel's id of the message to edit, which may have been delivered only recently."""
        edits = message.edits
        if edits is None or edits.message_id is not None:
            return message
        message_id = await self._store.read_message_id(edits.outbox_id)
        update = edits.model_copy(update={"message_id": message_id})
        return message.model_copy(update={"edits": update})

    async def _trace_of(self, message: OutboundMessage) -> str | None:
        """Return the trace of the message that this one answers; skipped unless traces are exported."""
        if message.answers is None or not is_export_enabled():
            return None
        return await self._store.read_trace(message.answers)

    async def _record_not_sent(
        self, message: OutboundMessage, idempotent: bool, error: ChoirError, wait_s: float
    ) -> float:
        log.info("delivery postponed", outbox_id=message.outbox_id, error=error.message)
        if not idempotent:
            await self._store.mark_not_sent(
                message.outbox_id, message.maybe_repeated, error.message
            )
        return wait_s

    def _record_unknown(
        self, queue: DeliveryQueue, message: OutboundMessage, error: Exception, wait_s: float
    ) -> float:
        log.warning("delivery outcome unknown", outbox_id=message.outbox_id, error=str(error))
        queue.replace_first(message.model_copy(update={"maybe_repeated": True}))
        return wait_s


def _undeliverable(message: OutboundMessage, error: ChoirError) -> DeliveryReceipt:
    return DeliveryReceipt(
        outbox_id=message.outbox_id, status="undeliverable", detail=error.message
    )
