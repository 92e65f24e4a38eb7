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
from choir_common.i18n import _
from choir_common.lanes import dm_of
from choir_common.postgres.pool import Database
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_common.wire.events import Event
from choir_common.wire.rpc import ReplyDraft
from choir_control.configuration.current import ConfigService
from choir_control.conversations.activity.derivation import (
    events_by_dm,
    is_busy_after,
    job_cards,
    job_dms,
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
MAX_JOBS = 1_000
# The conversation of a job that an earlier control process saw start; the stored card names it.
UNKNOWN_DM = ""


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

    async def find_dm(self, card_id: str) -> str | None:
        """Return the conversation that has a card, or None."""
        dm = await self._database.fetchval(
            "SELECT dm FROM choir_control.channel_messages WHERE card_id = $1 LIMIT 1", card_id
        )
        return None if dm is None else str(dm)

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
        self._job_dms: dict[str, str] = {}
        """The conversation of each core job that has started, the newest last."""
        self._pending: dict[tuple[str, str], Update] = {}
        self._wake = asyncio.Event()

    def note_events(self, lease: Lease, events: Sequence[Event]) -> None:
        """Process the events of an agent's heartbeat, which may be none."""
        home_dm = lease.bindings.dm
        by_dm = events_by_dm(events, home_dm)
        for dm in (home_dm, *lease.further_dms):
            self._note_turns(lease, dm, by_dm.get(dm, []))
        for job_id, dm in job_dms(events):
            self._job_dms[job_id] = dm
            while len(self._job_dms) > MAX_JOBS:
                del self._job_dms[next(iter(self._job_dms))]
        is_shared = bool(lease.further_dms or lease.former_dms)
        people = self._configuration.current.people
        for card in job_cards(events):
            dm = self._job_dms.get(card.card_id, UNKNOWN_DM) if is_shared else home_dm
            self.show(dm, card.in_language(people.language_in(dm)))

    def note_draft(self, lease: Lease, lane: str, draft: ReplyDraft) -> None:
        """Show the draft of a lane's reply, unless the reply is stored already."""
        dm = dm_of(lane, lease.bindings.dm)
        if dm is None or dm not in (lease.bindings.dm, *lease.further_dms):
            return
        session_id, replied = self._replied.get(dm, ("", 0))
        if session_id == lease.session_id and draft.read_rev < replied:
            return
        self._queue(dm, DRAFT, Draft(text=draft.text))
        # After a restart of control no event says that the agent works; its draft does. The words come first.
        self._show_typing(dm)

    def show(self, dm: str, card: Card) -> None:
        """Queue an update of a card; it replaces an earlier one that was not published yet."""
        self._queue(dm, card.card_id, card)

    def translate(self, dm: str, text: str) -> str:
        """Return a message in the language of a conversation."""
        return self._configuration.translate(dm, text)

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

    def _note_turns(self, lease: Lease, dm: str, events: Sequence[Event]) -> None:
        replied = last_reply_rev(events)
        if replied is not None:
            self._replied[dm] = (lease.session_id, replied)
            self._pending.pop((dm, DRAFT), None)
        if is_busy_after(events, dm in self._busy):
            self._show_typing(dm)
        elif dm in self._busy:
            del self._busy[dm]
            self._queue(dm, "", Idle())

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
        if dm == UNKNOWN_DM and isinstance(update, Card):
            dm = await self._store.find_dm(update.card_id) or UNKNOWN_DM
        gateway = self._configuration.current.gateway_of(dm)
        if gateway is None:
            return
        if isinstance(update, Card):
            message_id = await self._store.find(dm, update.card_id)
            update = update.model_copy(update={"message_id": message_id})
        if not self._bus.connected:
            raise Unavailable(_("NATS is not reachable."))
        activity = DmActivity(dm=dm, gateway=gateway, what=update)
        await self._bus.publish(subjects.dm_activity(), activity)
