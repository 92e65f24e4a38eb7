"""Typing indicators and progress cards; each card is one message, edited in place.

Filled by `channel`, which also runs it. Best effort: the last state of a card is shown eventually, and a
missed update is repeated by a later one. Drafts of replies are not shown: Discord has no drafts, and a draft
that is a message would stay as half an answer after a crash.
"""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import assert_never

import structlog

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_gateway.channels.discord.api_call import DiscordRefusedError
from choir_gateway.channels.discord.message_calls import MessageCalls, make_card_nonce
from choir_gateway.channels.discord.parts import make_card_part

log = structlog.get_logger("choir.gateway.discord")

# Discord shows "typing" for ten seconds.
TYPING_S = 8.0
EDIT_S = 3.0
CALL_TIMEOUT_S = 20.0
IDLE_S = 60.0
MAX_CARDS = 500
# A card that could not be shown this often is dropped; its job has moved on by then.
MAX_ATTEMPTS = 20


@dataclass(slots=True)
class _TypingSchedule:
    until: float
    next: float = 0.0


@dataclass(slots=True)
class _CardState:
    """A card and the state of its message."""

    user_id: str
    dm: str
    card: Card
    message_id: str | None
    text: str = ""
    is_stored: bool = False
    next: float = 0.0
    tries: int = 0

    @property
    def due(self) -> float:
        """Return the time of the next update, or infinity if the message is current."""
        return math.inf if self.text == self.card.text and self.is_stored else self.next


class DiscordActivityDisplay:
    """Display of the activity in the direct messages of one bot."""

    def __init__(self, calls: MessageCalls, control: ControlClient, gateway: str) -> None:
        self._calls = calls
        self._control = control
        self._gateway = gateway
        self._typing: dict[str, _TypingSchedule] = {}
        self._cards: OrderedDict[tuple[str, str], _CardState] = OrderedDict()
        self._news = asyncio.Event()

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Queue an activity; it is shown soon."""
        match activity.what:
            case Typing(lasts_s=lasts_s):
                before = self._typing.get(user_id, _TypingSchedule(0))
                self._typing[user_id] = _TypingSchedule(_now() + lasts_s, before.next)
            case Idle():
                self._typing.pop(user_id, None)
            case Draft():
                return
            case Card() as card:
                self._store_card(activity.dm, card, user_id)
            case other:
                assert_never(other)
        self._news.set()

    async def run(self) -> None:
        """Show activities until cancelled."""
        while True:
            self._news.clear()
            now = _now()
            async with asyncio.TaskGroup() as tasks:
                for user_id, typing in list(self._typing.items()):
                    if typing.until <= now:
                        del self._typing[user_id]
                    elif typing.next <= now:
                        tasks.create_task(self._send_typing(user_id, typing))
                for card in list(self._cards.values()):
                    if card.due <= now:
                        tasks.create_task(self._update_card(card))
            try:
                async with asyncio.timeout_at(self._next()):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _store_card(self, dm: str, card: Card, user_id: str) -> None:
        key = (user_id, card.card_id)
        state = self._cards.get(key)
        if state is None:
            # After a restart the message of a card is known but its text is not, so it is edited
            # even if it may be current.
            self._cards[key] = _CardState(
                user_id, dm, card, card.message_id, is_stored=card.message_id is not None
            )
            if len(self._cards) > MAX_CARDS:
                self._cards.popitem(last=False)
        elif not state.card.done:
            state.card = card

    def _next(self) -> float:
        times = [min(typing.next, typing.until) for typing in self._typing.values()]
        return min([*times, *(card.due for card in self._cards.values()), _now() + IDLE_S])

    async def _send_typing(self, user_id: str, typing: _TypingSchedule) -> None:
        typing.next = _now() + TYPING_S
        try:
            await self._calls.show_typing(user_id, deadline=_now() + TYPING_S)
        except (DiscordRefusedError, ChoirError) as error:
            log.debug("typing not shown", error=str(error))
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("typing not shown")

    async def _update_card(self, card: _CardState) -> None:
        """Update the message of a card; after a failure try again later."""
        card.tries += 1
        card.next = _now() + EDIT_S
        try:
            if card.text != card.card.text:
                await self._send_card(card)
            if not card.is_stored and card.message_id is not None:
                await self._control.keep_card(
                    CardMessage(dm=card.dm, card_id=card.card.card_id, message_id=card.message_id)
                )
                card.is_stored = True
            card.tries = 0
        except ChoirError as error:
            card.next = _now() + max(error.retry_after_s or 0.0, EDIT_S)
            log.debug("card not shown", dm=card.dm, error=error.message)
        except DiscordRefusedError as refusal:
            card.tries = MAX_ATTEMPTS
            log.debug("card not shown", dm=card.dm, error=refusal.text)
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("card not shown")
        # A finished card stays in memory: if it is repeated, it must not become a second message.
        if card.tries >= MAX_ATTEMPTS:
            self._cards.pop((card.user_id, card.card.card_id), None)

    async def _send_card(self, card: _CardState) -> None:
        text, deadline = card.card.text, _now() + CALL_TIMEOUT_S
        part = make_card_part(text)
        if card.message_id is not None:
            try:
                await self._calls.edit(card.user_id, card.message_id, part, deadline=deadline)
                card.text = text
                return
            except DiscordRefusedError as refusal:
                if refusal.blocks_user:
                    raise
                # The user cannot delete it, but the bot's owner can; then it is sent again.
        nonce = make_card_nonce(self._gateway, card.user_id, card.card.card_id, card.message_id)
        card.message_id = await self._calls.send(
            card.user_id, part, deadline=deadline, nonce=nonce, is_silent=True
        )
        card.text, card.is_stored = text, False


def _now() -> float:
    return asyncio.get_running_loop().time()
