"""What users see besides messages: read marks, reactions, "typing", and the results of progress cards.

Best effort: no message waits for any of it. A message cannot be edited on WhatsApp, so a card is shown once,
when its work is done.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import assert_never

import structlog

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.whatsapp.cloud_api import CloudApi, CloudApiError
from choir_gateway.channels.whatsapp.journal import MessageJournal
from choir_gateway.channels.whatsapp.parts import make_card_part
from choir_gateway.channels.whatsapp.recipients import address_to
from choir_gateway.channels.whatsapp.sender import WhatsAppPartSender

log = structlog.get_logger("choir.gateway.whatsapp")

# WhatsApp shows "typing" for 25 seconds, or until the reply.
TYPING_S = 20.0
CARD_RETRY_S = 5.0
MAX_CARDS = 500
MAX_CARD_ATTEMPTS = 20
MAX_PENDING = 100
"""If more messages arrive while WhatsApp accepts nothing, the oldest ones get no read mark."""


@dataclass(slots=True)
class _TypingPeriod:
    until: float
    next: float = 0.0


@dataclass(slots=True)
class _FinalCard:
    """A finished card and the state of its message."""

    dm: str
    card: Card
    message_id: str | None
    is_stored: bool = False
    next: float = 0.0
    tries: int = 0


class PresenceDisplay:
    """Display of the activity in the chats of one number."""

    def __init__(
        self,
        api: CloudApi,
        *,
        sender: WhatsAppPartSender,
        journal: MessageJournal,
        control: ControlClient,
        emoji: AcknowledgementEmoji | None,
    ) -> None:
        self._api = api
        self._sender = sender
        self._journal = journal
        self._control = control
        self._emoji = emoji
        self._typing: dict[str, _TypingPeriod] = {}
        self._cards: OrderedDict[tuple[str, str], _FinalCard] = OrderedDict()
        self._read: deque[tuple[str, str]] = deque(maxlen=MAX_PENDING)
        self._news = asyncio.Event()

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Queue an activity; it is shown soon."""
        match activity.what:
            case Typing(lasts_s=lasts_s):
                before = self._typing.get(user_id, _TypingPeriod(0))
                self._typing[user_id] = _TypingPeriod(_now() + lasts_s, before.next)
            case Idle():
                self._typing.pop(user_id, None)
            case Draft():
                return
            case Card() as card:
                self._store_card(activity.dm, card, user_id)
            case other:
                assert_never(other)
        self._news.set()

    def acknowledge(self, user_id: str, message_id: str) -> None:
        """Queue the read mark of a message that control has stored, and its reaction if there is one."""
        self._read.append((user_id, message_id))
        self._news.set()

    async def run(self) -> None:
        """Show activities until cancelled."""
        while True:
            self._news.clear()
            await self._show_due()
            try:
                async with asyncio.timeout_at(self._next()):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _show_due(self) -> None:
        while self._read:
            user_id, message_id = self._read.popleft()
            await self._report({"status": "read", "message_id": message_id})
            if self._emoji is not None:
                reaction: JsonObject = {"message_id": message_id, "emoji": self._emoji}
                await self._report(
                    {**address_to(user_id), "type": "reaction", "reaction": reaction}
                )
        for user_id, typing in list(self._typing.items()):
            if typing.until <= _now():
                del self._typing[user_id]
            elif typing.next <= _now():
                await self._send_typing(user_id, typing)
        for key, card in list(self._cards.items()):
            if not card.is_stored and card.next <= _now():
                await self._show_card(key, card)

    def _next(self) -> float:
        times = [min(typing.next, typing.until) for typing in self._typing.values()]
        cards = [card.next for card in self._cards.values() if not card.is_stored]
        return min([*times, *cards, _now() + 60])

    def _store_card(self, dm: str, card: Card, user_id: str) -> None:
        key = (user_id, card.card_id)
        if not card.done or key in self._cards:
            return
        # With an id it was shown before a restart.
        is_shown = card.message_id is not None
        self._cards[key] = _FinalCard(dm, card, card.message_id, is_stored=is_shown)
        if len(self._cards) > MAX_CARDS:
            self._cards.popitem(last=False)

    async def _send_typing(self, user_id: str, typing: _TypingPeriod) -> None:
        typing.next = _now() + TYPING_S
        last = self._journal.last_message(user_id)
        if last is not None:
            await self._report(
                {
                    "status": "read",
                    "message_id": last.message_id,
                    "typing_indicator": {"type": "text"},
                }
            )

    async def _report(self, body: JsonObject) -> None:
        try:
            await self._api.report(body)
        except (CloudApiError, ChoirError) as error:
            log.debug("presence not shown", error=str(error))
        except Exception:  # outermost loop of the presence: messages must not stop
            log.exception("presence not shown")

    async def _show_card(self, key: tuple[str, str], card: _FinalCard) -> None:
        card.next = _now() + CARD_RETRY_S
        if self._journal.last_message(key[0]) is None:
            return
        card.tries += 1
        try:
            if card.message_id is None:
                card.message_id = await self._sender.send_card(
                    key[0], make_card_part(card.card.text)
                )
            await self._control.keep_card(
                CardMessage(dm=card.dm, card_id=card.card.card_id, message_id=card.message_id)
            )
            card.is_stored = True
        except (RefusedError, ChoirError) as error:
            log.debug("card not shown", dm=card.dm, error=str(error))
        except Exception:  # outermost loop of the presence: messages must not stop
            log.exception("card not shown")
        # A finished card stays in memory: if it is repeated, it must not become a second message.
        if card.tries >= MAX_CARD_ATTEMPTS:
            card.is_stored = True


def _now() -> float:
    return asyncio.get_running_loop().time()
