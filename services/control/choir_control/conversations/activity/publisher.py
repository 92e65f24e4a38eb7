"""Publisher of the live activity of conversations, newest state only. Run by `app`.

Fed by `eventlog.append` with every heartbeat, and by operations; received by the gateway. A heartbeat shows
that the agent is alive, so typing is renewed only with heartbeats and otherwise expires at the gateway. Cards
wait while the bus is unavailable; an update that no gateway receives is lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_common.wire.activity import Card, CardMessage, DmActivity, Idle, Typing
from choir_common.wire.events import Event
from choir_control.conversations.activity.derivation import is_busy_after, job_cards
from choir_control.conversations.activity.store import CardStore
from choir_control.log.leases.store import Lease

log = structlog.get_logger("choir.activity")

TYPING_INTERVAL_S = 10.0
TYPING_LASTS_S = 30.0
# above this number the oldest updates are dropped; newer ones of the same subjects follow
MAX_PENDING = 1_000
RETRY_S = 1.0
CARD_RETENTION = timedelta(days=7)

Publish = Callable[[DmActivity], Awaitable[None]]


class ActivityPublisher:
    """Publisher of the activity of all conversations."""

    def __init__(
        self,
        store: CardStore,
        publish: Publish,
        gateway_of: Callable[[str], str | None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._publish = publish
        self._gateway_of = gateway_of
        self._clock = clock
        self._busy: dict[str, float] = {}
        """DMs in which an agent works, with the time of the last typing update."""
        self._news: dict[tuple[str, str], Typing | Idle | Card] = {}
        self._wake = asyncio.Event()

    def heard(self, lease: Lease, events: Sequence[Event]) -> None:
        """Process the events of an agent's heartbeat, which may be none."""
        dm, now = lease.dm, self._clock.monotonic()
        was_busy = dm in self._busy
        if is_busy_after(events, was_busy):
            if not was_busy or now - self._busy[dm] >= TYPING_INTERVAL_S:
                self._busy[dm] = now
                self._tell(dm, "", Typing(lasts_s=TYPING_LASTS_S))
        elif was_busy:
            del self._busy[dm]
            self._tell(dm, "", Idle())
        for card in job_cards(events):
            self.show(dm, card)

    def show(self, dm: str, card: Card) -> None:
        """Queue an update of a card; it replaces an earlier one that was not published yet."""
        self._tell(dm, card.card_id, card)

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
            news, self._news = self._news, {}
            away = False
            for (dm, card_id), what in news.items():
                try:
                    await self._publish_one(dm, what)
                except Unavailable as error:
                    log.info("activity was not told", dm=dm, error=error.message)
                    away = True
                    if isinstance(what, Card):
                        # unless a newer update arrived meanwhile
                        self._news.setdefault((dm, card_id), what)
                except Exception:  # the outermost loop: the next update may succeed
                    log.exception("activity was not told", dm=dm)
            if away:
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    def _tell(self, dm: str, card_id: str, what: Typing | Idle | Card) -> None:
        # moved to the end: the newest update is published last
        self._news.pop((dm, card_id), None)
        self._news[dm, card_id] = what
        while len(self._news) > MAX_PENDING:
            del self._news[next(iter(self._news))]
        self._wake.set()

    async def _publish_one(self, dm: str, what: Typing | Idle | Card) -> None:
        gateway = self._gateway_of(dm)
        if gateway is None:
            return
        if isinstance(what, Card):
            known = await self._store.find(dm, what.card_id)
            what = what.model_copy(update={"message_id": known})
        await self._publish(DmActivity(dm=dm, gateway=gateway, what=what))
