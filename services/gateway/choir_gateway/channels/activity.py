"""Typing indicators and progress cards of a messenger; each card is one message, edited in place.

Filled by a channel, which also runs it. Best effort: messages have priority, the last state of a card is
shown eventually, and a missed update is repeated by a later one. Drafts of replies are not shown here.
"""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol, assert_never

import structlog

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_gateway.channels.file_transfer import RefusedError

log = structlog.get_logger("choir.gateway")

EDIT_S = 3.0
BUSY_S = 1.0
IDLE_S = 60.0
MAX_CARDS = 500
# A card that could not be shown this often is dropped; its job has moved on by then.
MAX_ATTEMPTS = 20


class ActivityCalls(Protocol):
    """The calls of one messenger; they raise RefusedError and the errors of Choir."""

    @property
    def typing_s(self) -> float:
        """Seconds after which `show_typing` is repeated."""
        ...

    def is_free(self, user_id: str) -> bool:
        """Return whether an unimportant message may be sent now without delaying a reply."""
        ...

    async def show_typing(self, user_id: str) -> None:
        """Show that the agent prepares a reply."""
        ...

    async def hide_typing(self, user_id: str) -> None:
        """Show that it no longer does; for messengers whose sign does not end by itself."""
        ...

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card and return the id of its message; `key` is the same for each attempt."""
        ...

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card."""
        ...


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


class ActivityDisplay:
    """Display of the activity in the chats of one bot."""

    def __init__(
        self, calls: ActivityCalls, control: ControlClient, *, edit_s: float = EDIT_S
    ) -> None:
        """`edit_s`: the least time between two updates of a card."""
        self._calls = calls
        self._edit_s = edit_s
        self._control = control
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
                if user_id in self._typing:
                    self._typing[user_id].until = 0.0
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
                        tasks.create_task(self._hide_typing(user_id))
                    elif typing.next <= now:
                        tasks.create_task(self._show_typing(user_id, typing))
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
        # `inf` is not a valid time for the loop; an additional wakeup per minute costs nothing.
        return min([*times, *(card.due for card in self._cards.values()), _now() + IDLE_S])

    async def _show_typing(self, user_id: str, typing: _TypingSchedule) -> None:
        typing.next = _now() + self._calls.typing_s
        try:
            await self._calls.show_typing(user_id)
        except ChoirError as error:
            typing.next = _now() + max(error.retry_after_s or 0.0, self._calls.typing_s)
            log.debug("typing not shown", error=error.message)
        except RefusedError as refusal:
            log.debug("typing not shown", error=refusal.text)
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("typing not shown")

    async def _hide_typing(self, user_id: str) -> None:
        try:
            await self._calls.hide_typing(user_id)
        except (ChoirError, RefusedError) as error:
            log.debug("typing not hidden", error=str(error))
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("typing not hidden")

    async def _update_card(self, card: _CardState) -> None:
        """Update the message of a card; after a failure try again later."""
        # Replies have priority over cards.
        if card.text != card.card.text and not self._calls.is_free(card.user_id):
            card.next = _now() + BUSY_S
            return
        card.tries += 1
        card.next = _now() + self._edit_s
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
            card.next = _now() + max(error.retry_after_s or 0.0, self._edit_s)
            log.debug("card not shown", dm=card.dm, error=error.message)
        except RefusedError as refusal:
            card.tries = MAX_ATTEMPTS
            log.debug("card not shown", dm=card.dm, error=refusal.text)
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("card not shown")
        # A finished card stays in memory: if it is repeated, it must not become a second message.
        if card.tries >= MAX_ATTEMPTS:
            self._cards.pop((card.user_id, card.card.card_id), None)

    async def _send_card(self, card: _CardState) -> None:
        text = card.card.text
        if card.message_id is not None:
            try:
                await self._calls.edit_card(card.user_id, card.message_id, text)
                card.text = text
                return
            except RefusedError as refusal:
                if refusal.blocks_user:
                    raise
                # The message is gone; then it is sent again.
        key = "\0".join((card.user_id, card.card.card_id, card.message_id or ""))
        card.message_id = await self._calls.send_card(card.user_id, text, key)
        card.text, card.is_stored = text, False


def _now() -> float:
    return asyncio.get_running_loop().time()
