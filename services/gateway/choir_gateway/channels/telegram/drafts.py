"""Drafts of replies in Telegram chats: shown while the model writes, at most once a second per chat.

Telegram shows a draft for half a minute, or until the bot's next message, so nothing has to be deleted after
a crash. A Bot API server that does not know drafts is not asked again; its users see the typing indicator.
"""

import asyncio
import itertools
import math
import time
from dataclasses import dataclass, field

import structlog
from telegram import Bot
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from choir_common.errors import Unavailable
from choir_gateway.channels.formatting.chunks import split_text
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import plain_text
from choir_gateway.channels.telegram.api_call import RateLimiter, retry_after_s
from choir_gateway.channels.telegram.html import LIMIT, to_html

log = structlog.get_logger("choir.gateway.telegram")

INTERVAL_S = 1.0
IDLE_S = 60.0
# A reply waits this long for a draft that is being sent, which would otherwise appear behind it.
END_TIMEOUT_S = 2.0
MAX_DRAFT_ID = 2**31 - 1


@dataclass(slots=True, eq=False)
class _ChatDraft:
    """The draft in one chat, and what Telegram shows of it."""

    draft_id: int
    text: str = ""
    visible_text: str = ""
    next: float = 0.0
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def due(self) -> float:
        """Return the time of the next update, or infinity if Telegram shows the newest text."""
        is_current = not self.text.strip() or self.text == self.visible_text
        return math.inf if is_current else self.next


class DraftDisplay:
    """Display of drafts in the chats of one bot."""

    def __init__(self, bot: Bot, rate_limiter: RateLimiter) -> None:
        self._bot = bot
        self._rate_limiter = rate_limiter
        self._drafts: dict[str, _ChatDraft] = {}
        # Also after a restart a new draft has an id of its own.
        self._ids = itertools.count(int(time.time()) % (MAX_DRAFT_ID // 2) + 1)
        self._is_supported = True
        self._news = asyncio.Event()

    def show(self, user_id: str, text: str) -> None:
        """Queue the newest text of a draft; it is shown soon."""
        if not self._is_supported:
            return
        draft = self._drafts.get(user_id)
        if draft is None:
            draft = self._drafts[user_id] = _ChatDraft(next(self._ids))
        draft.text = text
        self._news.set()

    async def end(self, user_id: str) -> None:
        """Show no more of a draft; return when no update of it is on its way."""
        draft = self._drafts.pop(user_id, None)
        if draft is None or not draft.sending.locked():
            return
        try:
            async with asyncio.timeout(END_TIMEOUT_S), draft.sending:
                return
        except TimeoutError:
            log.debug("a draft is still on its way")

    async def run(self) -> None:
        """Show drafts until cancelled."""
        while True:
            self._news.clear()
            now = _now()
            async with asyncio.TaskGroup() as tasks:
                for user_id, draft in self._drafts.items():
                    if draft.due <= now:
                        tasks.create_task(self._run_update(user_id, draft))
            next_due = min((draft.due for draft in self._drafts.values()), default=math.inf)
            try:
                async with asyncio.timeout_at(min(next_due, _now() + IDLE_S)):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _run_update(self, user_id: str, draft: _ChatDraft) -> None:
        try:
            await self._update(user_id, draft)
        except Exception:  # outermost loop of the drafts: messages must not stop
            log.exception("draft not shown")

    async def _update(self, user_id: str, draft: _ChatDraft) -> None:
        draft.next = _now() + INTERVAL_S
        # Replies have priority over drafts.
        if not self._rate_limiter.is_free(user_id):
            return
        async with draft.sending:
            # The reply may have come while this task waited.
            if self._drafts.get(user_id) is not draft:
                return
            text = draft.text
            try:
                await self._rate_limiter.wait(user_id, _now() + INTERVAL_S)
                await self._send(int(user_id), draft.draft_id, text)
            except RetryAfter as error:
                draft.next = _now() + retry_after_s(error)
            except InvalidToken:
                # The library's error for an unknown method, too.
                self._is_supported = False
                self._drafts.clear()
                log.info("this Bot API server does not show drafts")
            except (TelegramError, Unavailable) as error:
                log.debug("draft not shown", error=str(error))
            else:
                draft.visible_text = text

    async def _send(self, chat_id: int, draft_id: int, text: str) -> None:
        styled = split_text(parse_markdown(_newest_part(text)), LIMIT)[-1]
        try:
            await self._bot.send_message_draft(
                chat_id, draft_id, to_html(styled), parse_mode="HTML"
            )
        except BadRequest as error:
            if "parse entities" not in error.message:
                raise
            await self._bot.send_message_draft(chat_id, draft_id, plain_text(styled))


def _newest_part(text: str) -> str:
    """Return the end of a long text, from the beginning of a line."""
    if len(text) <= LIMIT:
        return text
    end = text[-LIMIT:]
    return end.partition("\n")[2] or end


def _now() -> float:
    return asyncio.get_running_loop().time()
