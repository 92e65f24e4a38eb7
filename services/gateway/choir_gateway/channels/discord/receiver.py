"""Receiver of users' messages, edits and button presses: each is stored by control, in order.

Events wait in memory while control is unavailable. What a process loses so is fetched from the channel's
history at the next start, after the mark of what control has stored.
"""

import asyncio
from dataclasses import dataclass

import discord
import structlog

from choir_common.backoff import Backoff
from choir_common.clients.control import ControlClient
from choir_common.wire.messages import ButtonPress
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.discord.api_call import NETWORK_ERRORS, describe_error
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.history import DiscordHistory
from choir_gateway.channels.discord.message_parser import edit_time_ms, parse_message, parse_press
from choir_gateway.channels.discord.places import DiscordPlace, find_place, list_places
from choir_gateway.channels.discord.presses import PressAnswerer
from choir_gateway.channels.discord.read_marks import DiscordReadMark, ReadMarkStore
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import Stranger, StrangerReplies

log = structlog.get_logger("choir.gateway.discord")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Press:
    press: ButtonPress
    interaction: discord.Interaction


class _NewGatewaySession:
    """A marker in the queue: Discord may have lost events before this point."""


class DiscordMessageReceiver:
    """Receiver of one bot's events."""

    def __init__(
        self,
        client: DiscordClient,
        gateway: str,
        *,
        control: ControlClient,
        conversations: ConversationDirectory,
        notes: NoteQueue,
        strangers: StrangerReplies,
        marks: ReadMarkStore,
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._strangers = strangers
        self._marks = marks
        self._history = DiscordHistory(client, marks, gateway=gateway, conversations=conversations)
        self._answerer = PressAnswerer(client, gateway)
        self._events: asyncio.Queue[discord.Message | _Press | _NewGatewaySession] = asyncio.Queue()

    def take_session(self) -> None:
        """Queue the reading of the histories after the start of a session."""
        self._events.put_nowait(_NewGatewaySession())

    def take_message(self, message: discord.Message) -> None:
        """Queue a new or edited message; those of strangers are dropped."""
        if self._place_of(message) is not None:
            self._events.put_nowait(message)
        elif _is_new_and_private(message):
            name = message.author.display_name
            self._strangers.add(Stranger(str(message.author.id), name))

    async def take_interaction(self, interaction: discord.Interaction) -> None:
        """Queue a press and confirm it to Discord, which waits for three seconds."""
        press = parse_press(interaction, self._gateway)
        if press is None or self._conversations.find(self._gateway, press.user_id) is None:
            return
        self._events.put_nowait(_Press(press, interaction))
        await self._answerer.confirm(interaction)

    async def prepare(self) -> None:
        """Mark the present end of the histories that were never read; raises the errors of the library."""
        for place in self._places():
            if self._marks.find(place.mark) is not None:
                continue
            try:
                recent = await self._history.fetch_recent(place)
            except discord.HTTPException as error:
                if not _concerns_one_user(error):
                    raise
                # One user must not keep the messages of the others waiting.
                log.warning("history not read", dm=place.dm.name, error=error.text)
            else:
                await self._marks.store(place.mark, _newest_mark(recent))

    async def run(self) -> None:
        """Store events until cancelled."""
        while True:
            event = await self._events.get()
            try:
                await self._handle(event)
            except Exception:  # outermost loop of the events: continue with the next
                log.exception("event not stored", gateway=self._gateway)

    async def _handle(self, event: discord.Message | _Press | _NewGatewaySession) -> None:
        match event:
            case discord.Message():
                place = self._place_of(event)
                if place is not None:
                    await self._store(event, place)
            case _Press(press, interaction):
                response = await repeat_until_accepted(
                    lambda: self._control.press(press), self._gateway
                )
                if response is not None:
                    await self._answerer.answer(interaction, response.answer)
            case _NewGatewaySession():
                for place in self._places():
                    # Without a mark nobody knows which messages are from before the DM was configured.
                    if self._marks.find(place.mark) is not None:
                        await self._catch_up(place)

    async def _catch_up(self, place: DiscordPlace) -> None:
        """Store the messages since the mark; wait while Discord is unavailable, to keep the order."""
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                missed = await self._history.fetch_missed(place)
                break
            except discord.HTTPException as error:
                if _concerns_one_user(error):
                    log.warning("history not read", dm=place.dm.name, error=error.text)
                    return
                await asyncio.sleep(backoff.pause_s())
            except NETWORK_ERRORS as error:
                log.info("history not read yet", dm=place.dm.name, error=describe_error(error))
                await asyncio.sleep(backoff.pause_s())
        for written_in, message in missed:
            if place.is_group or str(message.author.id) == place.dm.user_id:
                await self._store(message, written_in)

    async def _store(self, message: discord.Message, place: DiscordPlace) -> None:
        """Send a message to control unless it is known to have it, then move the mark."""
        mark = self._marks.find(place.mark) or DiscordReadMark()
        edited_at = edit_time_ms(message) / 1000
        is_edit = message.id <= mark.message_id
        if is_edit and edited_at <= mark.edited_at:
            return
        me = self._client.user.id if self._client.user else 0
        content = parse_message(message, self._gateway, place, me=me, is_edit=is_edit)
        if content is not None:
            acceptance = await repeat_until_accepted(
                lambda: self._control.accept(content), self._gateway
            )
            # The note of a repeated message was sent before.
            if acceptance is not None and not acceptance.duplicate and acceptance.note is not None:
                self._notes.add(place.address, acceptance.note)
        newest = DiscordReadMark(max(message.id, mark.message_id), max(edited_at, mark.edited_at))
        await self._marks.store(place.mark, newest)

    def _place_of(self, message: discord.Message) -> DiscordPlace | None:
        return find_place(message, self._gateway, self._conversations)

    def _places(self) -> list[DiscordPlace]:
        return list_places(self._gateway, self._conversations)


def _is_new_and_private(message: discord.Message) -> bool:
    is_private = isinstance(message.channel, discord.DMChannel)
    return is_private and not message.author.bot and message.edited_at is None


def _concerns_one_user(error: discord.HTTPException) -> bool:
    """Return whether an error is permanent and not one of the bot: its token, the rate limit."""
    return error.status < 500 and error.status not in (401, 429)


def _newest_mark(messages: list[discord.Message]) -> DiscordReadMark:
    newest = max((it.id for it in messages), default=0)
    return DiscordReadMark(newest, max((edit_time_ms(it) / 1000 for it in messages), default=0.0))
