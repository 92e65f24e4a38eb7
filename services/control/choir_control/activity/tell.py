"""Publish what goes on in conversations, the newest of each thing. Run by `app`.

Fed by `eventlog.append` with every heartbeat, and by works of a conversation; the gateway comes next. A
heartbeat says that the agent lives, so typing is told again only while heartbeats come: should they end, it
runs out by itself at the gateway. Cards wait while the bus is away; what nobody at the gateway heard is lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_common.wire.activity import Card, DmActivity, Idle, KeptCard, Typing
from choir_common.wire.events import Event
from choir_control.activity.read import cards_of, is_busy_after
from choir_control.activity.store import CardStore
from choir_control.leases.store import Lease

log = structlog.get_logger("choir.activity")

AGAIN_S = 10.0
LASTS_S = 30.0
# more news than this at once: the oldest are dropped, newer ones of the same things follow
MOST_WAITING = 1_000
AWAY_S = 1.0
KEEP = timedelta(days=7)

Publish = Callable[[DmActivity], Awaitable[None]]


class Activity:
    """The news of all conversations."""

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
        """DMs in which an agent works, and when that was told last."""
        self._news: dict[tuple[str, str], Typing | Idle | Card] = {}
        self._wake = asyncio.Event()

    def heard(self, lease: Lease, events: Sequence[Event]) -> None:
        """Take in what an agent's heartbeat brought, if only that it lives."""
        dm, now = lease.dm, self._clock.monotonic()
        was_busy = dm in self._busy
        if is_busy_after(events, was_busy):
            if not was_busy or now - self._busy[dm] >= AGAIN_S:
                self._busy[dm] = now
                self._tell(dm, "", Typing(lasts_s=LASTS_S))
        elif was_busy:
            del self._busy[dm]
            self._tell(dm, "", Idle())
        for card in cards_of(events):
            self.show(dm, card)

    def show(self, dm: str, card: Card) -> None:
        """Show how something stands; only the newest of a card counts."""
        self._tell(dm, card.card_id, card)

    async def keep(self, card: KeptCard) -> None:
        """Remember the message that shows a card."""
        await self._store.keep(card)

    async def prune(self) -> None:
        """Forget old cards."""
        await self._store.prune(KEEP)

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
                        # unless there is newer of it by now
                        self._news.setdefault((dm, card_id), what)
                except Exception:  # the outermost loop: the next news may fare better
                    log.exception("activity was not told", dm=dm)
            if away:
                await asyncio.sleep(AWAY_S)
                self._wake.set()

    def _tell(self, dm: str, card_id: str, what: Typing | Idle | Card) -> None:
        # put at the end again: what is newest goes last
        self._news.pop((dm, card_id), None)
        self._news[dm, card_id] = what
        while len(self._news) > MOST_WAITING:
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
