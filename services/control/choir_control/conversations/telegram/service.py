"""Attempts to connect Telegram bots: waits for the code, then binds its sender.

Attempts are in memory only. Until the code has arrived an attempt changes nothing, so a crash, a cancellation
or the end of its time leaves nothing behind.
"""

import asyncio
from datetime import timedelta

import structlog

from choir_common.clients.bots import BotClient
from choir_common.clock import Clock
from choir_common.errors import (
    ChoirError,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    NotFound,
    RateLimited,
    Unavailable,
)
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.redactor import Redactor
from choir_common.wire.telegram import (
    BotAccess,
    BotMessage,
    BotMessages,
    ConnectTelegram,
    ReadBotMessages,
    TelegramConnection,
    bot_id,
)
from choir_control.conversations.outbox.notices import NoticeSender
from choir_control.conversations.telegram.agent_move import AgentMover
from choir_control.conversations.telegram.attempt import ConnectionAttempt
from choir_control.conversations.telegram.binder import TelegramBinder

log = structlog.get_logger("choir.telegram")

LIFETIME = timedelta(minutes=10)
POLL_S = 10.0
RETRY_S = 1.0
# Telegram ends the earlier of two polls, so one conflict may be an old poll of Choir itself.
MAX_CONFLICTS = 3
MAX_WAITING = 4
MAX_KNOWN = 32
GREETING = _(
    "Connected. You are talking to {agent}; write anything. /help lists the commands, and requests for "
    "your approval arrive here, too."
)
OTHER_WEBHOOK = _(
    "Telegram sends this bot's messages to {url}, so another program uses it. Create another "
    "bot with @BotFather (/newbot), or, if nothing needs that address any more, repeat with "
    "--replace-webhook."
)


class TelegramConnector:
    """Service that connects bots with agents and people."""

    def __init__(
        self,
        *,
        bots: BotClient,
        binder: TelegramBinder,
        mover: AgentMover,
        notices: NoticeSender,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._bots = bots
        self._binder = binder
        self._mover = mover
        self._notices = notices
        self._redactor = redactor
        self._clock = clock
        self._attempts: dict[str, ConnectionAttempt] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the attempts until cancelled; they are cancelled, too."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    async def begin(self, request: ConnectTelegram) -> TelegramConnection:
        """Check the bot and wait for its code in the background; replaces an attempt with the same bot.

        Raises InvalidRequest for a token that Telegram refuses, Conflict if the bot is connected already or
        used by another program, RateLimited, and the errors of `TelegramBinder.check`.
        """
        self._redactor.add_secrets([request.token])
        if self._tasks is None:
            raise Unavailable(_("choird is still starting; try again in a moment."))
        await self._binder.check(request)
        bot = await self._bots.identify(_access(request))
        if bot.webhook_url and not request.replace_webhook:
            raise Conflict(OTHER_WEBHOOK.format(url=bot.webhook_url[:200]))
        if bot.webhook_url:
            await self._bots.remove_webhook(_access(request))
        self._end_other_attempts(request)
        attempt = ConnectionAttempt(
            connection_id=new_id("tg"),
            request=request,
            bot=bot.username,
            expires_at=self._clock.now() + LIFETIME,
        )
        self._attempts[attempt.connection_id] = attempt
        self._waiting[attempt.connection_id] = self._tasks.create_task(
            self._run(attempt), name=f"telegram {attempt.connection_id}"
        )
        return attempt.view()

    def list(self) -> list[TelegramConnection]:
        """Return the attempts since the start of choird, newest first."""
        return [attempt.view() for attempt in reversed(self._attempts.values())]

    def get(self, connection_id: str) -> TelegramConnection:
        """Return the state of an attempt; raises NotFound."""
        return self._attempt(connection_id).view()

    def cancel(self, connection_id: str) -> TelegramConnection:
        """End an attempt that still waits for its code; return the state.

        Raises NotFound, and Conflict once the code has arrived: the bot is being connected then.
        """
        attempt = self._attempt(connection_id)
        if attempt.state == "applying":
            raise Conflict(
                _("{user_name} has sent the code, and the bot is being connected.").format(
                    user_name=attempt.user_name
                )
            )
        self._end(attempt, Conflict(_("The attempt was cancelled. Nothing was changed.")))
        return attempt.view()

    def _attempt(self, connection_id: str) -> ConnectionAttempt:
        attempt = self._attempts.get(connection_id)
        if attempt is None:
            raise NotFound(
                _(
                    "There is no attempt {connection_id!r}; choird was restarted, perhaps. Repeat `choirctl "
                    "telegram connect`."
                ).format(connection_id=connection_id[:80])
            )
        return attempt

    def _end_other_attempts(self, request: ConnectTelegram) -> None:
        """Replace an attempt with the same bot, and forget the oldest ones that are over."""
        for other in list(self._attempts.values()):
            if bot_id(other.request.token) == bot_id(request.token) and not other.is_over:
                if other.state == "applying":
                    raise Conflict(_("This bot is being connected. Wait a moment."))
                self._end(other, Conflict(_("Another attempt with this bot has begun.")))
        if sum(not attempt.is_over for attempt in self._attempts.values()) >= MAX_WAITING:
            raise RateLimited(
                _("{max_waiting} bots wait for their codes. Wait until one is done.").format(
                    max_waiting=MAX_WAITING
                )
            )
        over = [name for name, attempt in self._attempts.items() if attempt.is_over]
        for name in over[: max(0, len(self._attempts) - MAX_KNOWN)]:
            del self._attempts[name]

    def _end(self, attempt: ConnectionAttempt, error: ChoirError) -> None:
        if not attempt.is_over:
            attempt.fail(error)
        task = self._waiting.pop(attempt.connection_id, None)
        if task is not None:
            task.cancel()

    async def _run(self, attempt: ConnectionAttempt) -> None:
        try:
            message = await self._wait_for_code(attempt)
            attempt.state, attempt.user_name = "applying", message.user_name
            await self._connect(attempt, message)
            attempt.state = "connected"
        except ChoirError as error:
            attempt.fail(error)
            log.warning("bot not connected", bot=attempt.bot, error=error.message)
        except Exception:  # the outermost handler of this attempt: the others continue
            log.exception("bot not connected", bot=attempt.bot)
            attempt.fail(ChoirError(_("Internal error; see choird's log.")))
        finally:
            self._waiting.pop(attempt.connection_id, None)

    async def _connect(self, attempt: ConnectionAttempt, message: BotMessage) -> None:
        """Bind the person, move the agent and greet; only the first of these steps can fail."""
        request = attempt.request
        # Otherwise the agent would receive the code as a message.
        await self._read(attempt, after=message.update_id)
        names = attempt.names = await self._binder.bind(request, message.user_id)
        open_work = await self._mover.move(request.agent_id, names.dm)
        attempt.remaining = (open_work,) if open_work else ()
        text = open_work or GREETING.format(agent=request.agent_id)
        try:
            await self._notices.send(names.dm, names.gateway, text)
        except Unavailable as error:
            log.warning("no greeting", dm=names.dm, error=error.message)

    async def _wait_for_code(self, attempt: ConnectionAttempt) -> BotMessage:
        after: int | None = None
        while True:
            left_s = self._left_s(attempt)
            batch = await self._read(attempt, after=after, wait_s=min(POLL_S, left_s))
            for message in batch.messages:
                match attempt.code.check(message.user_id, message.text):
                    case "right":
                        return message
                    case "exhausted":
                        raise Forbidden(
                            _(
                                "Too many wrong codes were sent to this bot. Nothing was changed; repeat "
                                "the command for another code."
                            )
                        )
                    case "wrong" | "ignored":
                        continue
            after = batch.last if batch.last is not None else after

    async def _read(
        self, attempt: ConnectionAttempt, *, after: int | None, wait_s: float = 0
    ) -> BotMessages:
        """Poll Telegram once, and again if it cannot be reached; raises Conflict, DeadlineExceeded."""
        request = attempt.request
        poll = ReadBotMessages(
            token=request.token, api_url=request.api_url, after=after, wait_s=wait_s
        )
        conflicts = 0
        while True:
            self._left_s(attempt)
            try:
                batch = await self._bots.read_messages(poll)
            except Conflict as error:
                conflicts += 1
                if conflicts >= MAX_CONFLICTS:
                    raise
                attempt.trouble = error.message
            except (Unavailable, RateLimited) as error:
                attempt.trouble = error.message
            else:
                attempt.trouble = ""
                return batch
            await asyncio.sleep(RETRY_S)

    def _left_s(self, attempt: ConnectionAttempt) -> float:
        """Return how long the code is still valid; raises DeadlineExceeded if it is not."""
        left_s = (attempt.expires_at - self._clock.now()).total_seconds()
        if left_s <= 0:
            raise DeadlineExceeded(
                _(
                    "Nobody sent the code in time. {trouble} Nothing was changed; repeat the command."
                ).format(trouble=attempt.trouble)
            )
        return left_s


def _access(request: ConnectTelegram) -> BotAccess:
    return BotAccess(token=request.token, api_url=request.api_url)
