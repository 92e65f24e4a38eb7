"""Receiver of users' messages, edits and button presses: each is stored by control, in order.

Events wait in memory while control is unavailable. What a process loses so is fetched from the channel's
history at the next start, after the mark of what control has stored.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import discord
import structlog

from choir_common.backoff import Backoff
from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError, InvalidRequest, NotFound
from choir_common.wire.messages import ButtonPress, DmBinding
from choir_gateway.channels.discord.api_call import NETWORK_ERRORS, describe_error
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.message_parser import edit_time_ms, parse_message, parse_press
from choir_gateway.channels.discord.presses import PressAnswerer
from choir_gateway.channels.discord.read_marks import ReadMark, ReadMarkStore
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue

log = structlog.get_logger("choir.gateway.discord")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0
# Edits of older messages that were made while the gateway was away are not seen.
RECENT = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Press:
    press: ButtonPress
    interaction: discord.Interaction


class _NewSession:
    """A marker in the queue: Discord may have lost events before this point."""


class MessageReceiver:
    """Receiver of one bot's events."""

    def __init__(
        self,
        client: DiscordClient,
        gateway: str,
        *,
        control: ControlClient,
        conversations: ConversationDirectory,
        notes: NoteQueue,
        marks: ReadMarkStore,
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._marks = marks
        self._answerer = PressAnswerer(client, gateway)
        self._events: asyncio.Queue[discord.Message | _Press | _NewSession] = asyncio.Queue()

    def take_session(self) -> None:
        """Queue the reading of the histories after the start of a session."""
        self._events.put_nowait(_NewSession())

    def take_message(self, message: discord.Message) -> None:
        """Queue a new or edited message; those of strangers are dropped."""
        if self._dm_of(message) is not None:
            self._events.put_nowait(message)

    async def take_interaction(self, interaction: discord.Interaction) -> None:
        """Queue a press and confirm it to Discord, which waits for three seconds."""
        press = parse_press(interaction, self._gateway)
        if press is None or self._conversations.find(self._gateway, press.user_id) is None:
            return
        self._events.put_nowait(_Press(press, interaction))
        await self._answerer.confirm(interaction)

    async def prepare(self) -> None:
        """Mark the present end of the histories that were never read; raises the errors of the library."""
        for dm in self._dms():
            if self._marks.find(dm.user_id) is not None:
                continue
            try:
                recent = await self._fetch_recent(dm)
            except discord.HTTPException as error:
                if not _concerns_one_user(error):
                    raise
                # One user must not keep the messages of the others waiting.
                log.warning("history not read", dm=dm.name, error=error.text)
            else:
                await self._marks.store(dm.user_id, _newest_mark(recent))

    async def run(self) -> None:
        """Store events until cancelled."""
        while True:
            event = await self._events.get()
            try:
                await self._handle(event)
            except Exception:  # outermost loop of the events: continue with the next
                log.exception("event not stored", gateway=self._gateway)

    async def _handle(self, event: discord.Message | _Press | _NewSession) -> None:
        match event:
            case discord.Message():
                dm = self._dm_of(event)
                if dm is not None:
                    await self._store(event, dm)
            case _Press(press, interaction):
                response = await self._retry(lambda: self._control.press(press))
                if response is not None:
                    await self._answerer.answer(interaction, response.answer)
            case _NewSession():
                for dm in self._dms():
                    # Without a mark nobody knows which messages are from before the DM was configured.
                    if self._marks.find(dm.user_id) is not None:
                        await self._catch_up(dm)

    async def _catch_up(self, dm: DmBinding) -> None:
        """Store the messages since the mark; wait while Discord is unavailable, to keep the order."""
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                missed = await self._fetch_missed(dm)
                break
            except discord.HTTPException as error:
                if _concerns_one_user(error):
                    log.warning("history not read", dm=dm.name, error=error.text)
                    return
                await asyncio.sleep(backoff.pause_s())
            except NETWORK_ERRORS as error:
                log.info("history not read yet", dm=dm.name, error=describe_error(error))
                await asyncio.sleep(backoff.pause_s())
        for message in missed:
            if str(message.author.id) == dm.user_id:
                await self._store(message, dm)

    async def _fetch_missed(self, dm: DmBinding) -> list[discord.Message]:
        """Return the messages since the mark and some before it, which may have been edited."""
        mark = self._marks.find(dm.user_id) or ReadMark()
        recent = await self._fetch_recent(dm)
        if len(recent) < RECENT or recent[0].id <= mark.message_id:
            return recent
        channel = await self._client.create_dm(discord.Object(int(dm.user_id)))
        since = discord.Object(mark.message_id)
        return [it async for it in channel.history(limit=None, after=since, oldest_first=True)]

    async def _fetch_recent(self, dm: DmBinding) -> list[discord.Message]:
        channel = await self._client.create_dm(discord.Object(int(dm.user_id)))
        recent = [it async for it in channel.history(limit=RECENT)]
        return recent[::-1]

    async def _store(self, message: discord.Message, dm: DmBinding) -> None:
        """Send a message to control unless it is known to have it, then move the mark."""
        mark = self._marks.find(dm.user_id) or ReadMark()
        edited_at = edit_time_ms(message) / 1000
        is_edit = message.id <= mark.message_id
        if is_edit and edited_at <= mark.edited_at:
            return
        content = parse_message(message, self._gateway, dm, is_edit=is_edit)
        if content is not None:
            acceptance = await self._retry(lambda: self._control.accept(content))
            # The note of a repeated message was sent before.
            if acceptance is not None and not acceptance.duplicate and acceptance.note is not None:
                self._notes.add(dm.user_id, acceptance.note)
        newest = ReadMark(max(message.id, mark.message_id), max(edited_at, mark.edited_at))
        await self._marks.store(dm.user_id, newest)

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T | None:
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                return await call()
            except (NotFound, InvalidRequest) as error:
                log.warning("event refused", gateway=self._gateway, error=error.message)
                return None
            except ChoirError as error:
                log.info("event not stored yet", gateway=self._gateway, error=error.message)
            await asyncio.sleep(backoff.pause_s())

    def _dm_of(self, message: discord.Message) -> DmBinding | None:
        """Return the DM of a message; None for strangers, bots and servers."""
        if message.guild is not None or message.author.bot:
            return None
        return self._conversations.find(self._gateway, str(message.author.id))

    def _dms(self) -> list[DmBinding]:
        dms = list(self._conversations.by_name.values())
        return [dm for dm in dms if dm.gateway == self._gateway and dm.user_id.isdecimal()]


def _concerns_one_user(error: discord.HTTPException) -> bool:
    """Return whether an error is permanent and not one of the bot: its token, the rate limit."""
    return error.status < 500 and error.status not in (401, 429)


def _newest_mark(messages: list[discord.Message]) -> ReadMark:
    newest = max((it.id for it in messages), default=0)
    return ReadMark(newest, max((edit_time_ms(it) / 1000 for it in messages), default=0.0))
