"""Publisher of the live activity of conversations to the gateway, newest state only.

Fed with the events of every heartbeat, with drafts of replies, and by operations. A heartbeat shows
that the agent is alive, so typing is renewed only with heartbeats and otherwise expires at the gateway. Cards
wait while the bus is unavailable; an update that no gateway receives is lost.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_common.wire.events import Event
from choir_common.wire.rpc import ReplyDraft
from choir_control.configuration.current import ConfigService
from choir_control.conversations.activity.derivation import (
    is_busy_after,
    job_cards,
    last_reply_rev,
)
from choir_control.log.leases.store import Lease

log = structlog.get_logger("choir.activity")

TYPING_INTERVAL_S = 10.0
TYPING_LASTS_S = 30.0
# above this number the oldest updates are dropped; newer ones of the same subjects follow
MAX_PENDING = 1_000
RETRY_S = 1.0
# The key of a DM's draft among the pending updates; no card has an id with a NUL.
DRAFT = "\0draft"
CARD_RETENTION = timedelta(days=7)


Update = Typing | Idle | Draft | Card


class CardStore:
    """Store of the table `channel_messages`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def upsert(self, card: CardMessage) -> None:
        """Store which message shows a card."""
        await self._database.execute(
            """
            INSERT INTO choir_control.channel_messages (dm, card_id, message_id)
            VALUES ($1, $2, $3)
            ON CONFLICT (dm, card_id) DO UPDATE SET message_id = EXCLUDED.message_id, kept_at = now()
            """,
            card.dm,
            card.card_id,
            card.message_id,
        )

    async def find(self, dm: str, card_id: str) -> str | None:
        """Return the message that shows a card, or None."""
        message_id = await self._database.fetchval(
            "SELECT message_id FROM choir_control.channel_messages WHERE dm = $1 AND card_id = $2",
            dm,
            card_id,
        )
        return None if message_id is None else str(message_id)

    async def prune(self, older_than: timedelta) -> None:
        """Delete the entries that were not updated within `older_than`."""
        await self._database.execute(
            "DELETE FROM choir_control.channel_messages WHERE kept_at < now() - $1::interval",
            older_than,
        )


class ActivityPublisher:
    """Publisher of the activity of all conversations."""

    def __init__(
        self,
        store: CardStore,
        *,
        bus: Bus,
        configuration: ConfigService,
        clock: Clock,
    ) -> None:
        self._store = store
        self._bus = bus
        self._configuration = configuration
        self._clock = clock
        self._busy: dict[str, float] = {}
        """DMs in which an agent works, with the time of the last typing update."""
        self._replied: dict[str, tuple[str, int]] = {}
        """The last reply of each DM: session id and revision."""
        self._pending: dict[tuple[str, str], Update] = {}
        self._wake = asyncio.Event()

    def note_events(self, lease: Lease, events: Sequence[Event]) -> None:
        """Process the events of an agent's heartbeat, which may be none."""
        dm = lease.dm
        replied = last_reply_rev(events)
        if replied is not None:
            self._replied[dm] = (lease.session_id, replied)
            self._pending.pop((dm, DRAFT), None)
        if is_busy_after(events, dm in self._busy):
            self._show_typing(dm)
        elif dm in self._busy:
            del self._busy[dm]
            self._queue(dm, "", Idle())
        for card in job_cards(events):
            self.show(dm, card)

    def note_draft(self, lease: Lease, draft: ReplyDraft) -> None:
        """Show the draft of a reply, unless the reply is stored already."""
        session_id, replied = self._replied.get(lease.dm, ("", 0))
        if session_id == lease.session_id and draft.read_rev < replied:
            return
        # After a restart of control no event says that the agent works; its draft does.
        self._show_typing(lease.dm)
        self._queue(lease.dm, DRAFT, Draft(text=draft.text))

    def show(self, dm: str, card: Card) -> None:
        """Queue an update of a card; it replaces an earlier one that was not published yet."""
        self._queue(dm, card.card_id, card)

    async def keep(self, card: CardMessage) -> None:
        """Store the message that shows a card."""
        await self._store.upsert(card)

    async def prune(self) -> None:
        """Delete old cards from the store."""
        await self._store.prune(CARD_RETENTION)

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            updates, self._pending = self._pending, {}
            is_bus_away = False
            for (dm, card_id), update in updates.items():
                try:
                    await self._publish(dm, update)
                except Unavailable as error:
                    log.info("activity not published", dm=dm, error=error.message)
                    is_bus_away = True
                    if isinstance(update, Card):
                        # unless a newer update arrived meanwhile
                        self._pending.setdefault((dm, card_id), update)
                except Exception:  # the outermost loop: the next update may succeed
                    log.exception("activity not published", dm=dm)
            if is_bus_away:
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    def _show_typing(self, dm: str) -> None:
        now = self._clock.monotonic()
        if dm not in self._busy or now - self._busy[dm] >= TYPING_INTERVAL_S:
            self._busy[dm] = now
            self._queue(dm, "", Typing(lasts_s=TYPING_LASTS_S))

    def _queue(self, dm: str, card_id: str, update: Update) -> None:
        # moved to the end: the newest update is published last
        self._pending.pop((dm, card_id), None)
        self._pending[dm, card_id] = update
        while len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._wake.set()

    async def _publish(self, dm: str, update: Update) -> None:
        gateway = self._configuration.current.gateway_of(dm)
        if gateway is None:
            return
        if isinstance(update, Card):
            message_id = await self._store.find(dm, update.card_id)
            update = update.model_copy(update={"message_id": message_id})
        if not self._bus.connected:
            raise Unavailable("NATS is not reachable.")
        activity = DmActivity(dm=dm, gateway=gateway, what=update)
        await self._bus.publish(subjects.dm_activity(), activity)
