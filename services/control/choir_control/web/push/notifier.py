"""Notifications of delivered messages, for people who have no page of Choir in view.

Beside the way of messages: `notify` only puts a message into a bounded queue, and a failed notification is
not repeated. The message itself waits in the conversation.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable

import structlog

from choir_common.clock import Clock
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage
from choir_control.configuration.current import ConfigService
from choir_control.request_limits import RateBucket
from choir_control.web.push.client import PushClient, PushRequest
from choir_control.web.push.encryption import SubscriptionSecrets, encode_base64url, encrypt_message
from choir_control.web.push.presence import PresenceTracker
from choir_control.web.push.service import PushService
from choir_control.web.push.store import PushStore, PushSubscription
from choir_control.web.service import IDLE_LIFETIME

log = structlog.get_logger("choir.web.push")

QUEUE_SIZE = 200
WORKERS = 4
PER_MINUTE = 10
"""Notifications of one browser; the rest of a minute is dropped."""
TTL_S = 24 * 3600
PAD_TO = 256
"""All notifications have the same length, whatever the names in them."""
NOTIFIED: tuple[ReplyKind, ...] = ("answer", "report", "error")
"""The kinds that the page announces, too; others are parts of an answer that is still being written."""
MAX_PAUSES = 1000


class PushNotifier:
    """Queue of messages to announce, and the workers that do it."""

    def __init__(
        self,
        store: PushStore,
        *,
        service: PushService,
        client: PushClient,
        presence: PresenceTracker,
        configuration: ConfigService,
        subject: str,
        clock: Clock,
    ) -> None:
        self._store = store
        self._service = service
        self._client = client
        self._presence = presence
        self._configuration = configuration
        self._subject = subject
        self._clock = clock
        self._queue: asyncio.Queue[OutboundMessage] = asyncio.Queue(QUEUE_SIZE)
        self._buckets: dict[str, RateBucket] = {}
        self._pauses: dict[str, float] = {}
        """Monotonic time until which nothing is sent, by endpoint."""

    def notify(self, message: OutboundMessage) -> None:
        """Queue a delivered message; returns at once, and drops it if too many wait."""
        is_new = message.edits is None and (message.buttons or message.kind in NOTIFIED)
        if not is_new or not self._is_console(message.gateway):
            return
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            log.warning("web push dropped", dm=message.dm, reason="the queue is full")

    async def run(self) -> None:
        """Send notifications until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            message = await self._queue.get()
            try:
                await self._announce(message)
            except Exception:  # outermost loop: the next message may be announced
                log.exception("web push failed", dm=message.dm)
            finally:
                self._queue.task_done()

    async def wait_until_idle(self) -> None:
        """Return once everything that was queued is sent or dropped."""
        await self._queue.join()

    async def _announce(self, message: OutboundMessage) -> None:
        is_recipient = self._recipients_of(message.dm)
        if self._presence.is_somebody_here(is_recipient):
            return
        now = self._clock.now()
        for subscription in await self._store.list_live(now, now - IDLE_LIFETIME):
            if is_recipient(subscription.person):
                await self._send(subscription, message)

    async def _send(self, subscription: PushSubscription, message: OutboundMessage) -> None:
        if not self._may_send(subscription.endpoint):
            return
        key = await self._service.key()
        keys = SubscriptionSecrets(subscription.p256dh, subscription.auth)
        kind = "request" if message.buttons else "message"
        text = json.dumps({"kind": kind, "agent": message.agent_id, "dm": message.dm})
        outcome = await self._client.send(
            PushRequest(
                endpoint=subscription.endpoint,
                body=encrypt_message(text.encode(), keys, pad_to=PAD_TO),
                authorization=key.authorize(
                    subscription.endpoint, self._subject, self._clock.now()
                ),
                topic=_topic(subscription, message.dm),
                urgency="high" if message.buttons else "normal",
                ttl_s=TTL_S,
            )
        )
        session_id = subscription.web_session_id
        if outcome.status == "gone":
            await self._store.delete(session_id, subscription.endpoint)
        if outcome.pause_s:
            self._pause(subscription.endpoint, outcome.pause_s)
        if outcome.status != "sent":
            log.warning("web push refused", web_session_id=session_id, detail=outcome.detail)

    def _may_send(self, endpoint: str) -> bool:
        now = self._clock.monotonic()
        if self._pauses.get(endpoint, 0.0) > now:
            return False
        bucket = self._buckets.pop(endpoint, None) or RateBucket(float(PER_MINUTE), now)
        self._buckets[endpoint] = bucket
        if len(self._buckets) > MAX_PAUSES:
            del self._buckets[next(iter(self._buckets))]
        return bucket.wait_s(PER_MINUTE, now) == 0

    def _pause(self, endpoint: str, seconds: float) -> None:
        self._pauses.pop(endpoint, None)
        self._pauses[endpoint] = self._clock.monotonic() + seconds
        if len(self._pauses) > MAX_PAUSES:
            del self._pauses[next(iter(self._pauses))]

    def _is_console(self, gateway: str) -> bool:
        binding = self._configuration.current.config.gateways.get(gateway)
        return binding is not None and binding.type == "console"

    def _recipients_of(self, dm: str) -> Callable[[str | None], bool]:
        """Return the rule for whom a conversation is; the operator, None, has nobody's and the owners'."""
        snapshot = self._configuration.current
        person = snapshot.people.person_in(dm)
        is_operators = person is None or snapshot.config.people[person].role == "owner"
        return lambda name: is_operators if name is None else name == person


def _topic(subscription: PushSubscription, dm: str) -> str:
    """Return a name for a conversation that tells the push service nothing about it."""
    return encode_base64url(hashlib.sha256(subscription.auth + dm.encode()).digest()[:24])
