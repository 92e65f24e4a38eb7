"""Receiver of users' messages, edits and button presses: each is stored by control, in order.

Slack waits three seconds for the acknowledgement of an envelope, so events wait in memory while control is
unavailable. What a process loses so is read from the history at the next start, after the mark of what
control has stored.
"""

import asyncio
from dataclasses import dataclass

import structlog
from pydantic import ValidationError

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.messages import ButtonPress, DmBinding
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.slack.addresses import parse_group
from choir_gateway.channels.slack.choices import NumberedChoice, NumberedChoices
from choir_gateway.channels.slack.group_messages import (
    GROUP_TYPES,
    find_group_dm,
    is_for_agent,
    remove_mention,
)
from choir_gateway.channels.slack.history import HistoryReader
from choir_gateway.channels.slack.members import SlackMembers
from choir_gateway.channels.slack.message_calls import SlackMessageCalls
from choir_gateway.channels.slack.message_parser import (
    is_users,
    make_quote,
    parse_message,
    parse_press,
)
from choir_gateway.channels.slack.payloads import (
    BlockPress,
    BotIdentity,
    EventCallback,
    MessageEvent,
    MessageObject,
    SocketMessage,
)
from choir_gateway.channels.slack.reactions import SlackAcknowledger
from choir_gateway.channels.slack.read_marks import SlackReadMark, SlackReadMarkStore
from choir_gateway.channels.strangers import Stranger, StrangerReplies

log = structlog.get_logger("choir.gateway.slack")

CALL_TIMEOUT_S = 20.0
MAX_UNKNOWN_GROUPS = 100


@dataclass(frozen=True, slots=True)
class _ChannelMessage:
    message: MessageObject
    channel: str


@dataclass(frozen=True, slots=True)
class _ChannelPress:
    press: ButtonPress
    channel: str
    thread_ts: str | None


class _NewSocketSession:
    """A marker in the queue: Slack may have lost events before this point."""


class SlackMessageReceiver:
    """Receiver of one app's events."""

    def __init__(
        self,
        gateway: str,
        *,
        calls: SlackMessageCalls,
        history: HistoryReader,
        members: SlackMembers,
        choices: NumberedChoices,
        control: ControlClient,
        conversations: ConversationDirectory,
        notes: NoteQueue,
        strangers: StrangerReplies,
        acknowledger: SlackAcknowledger,
        marks: SlackReadMarkStore,
    ) -> None:
        self._gateway = gateway
        self._calls = calls
        self._history = history
        self._members = members
        self._choices = choices
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._strangers = strangers
        self._acknowledger = acknowledger
        self._marks = marks
        self._me = BotIdentity()
        self._unknown_groups: set[str] = set()
        self._events: asyncio.Queue[_ChannelMessage | _ChannelPress | _NewSocketSession] = (
            asyncio.Queue()
        )

    @property
    def addresses(self) -> list[str]:
        """The addresses of the configured users and groups of this gateway."""
        return [dm.address for dm in self._dms()]

    def take_session(self) -> None:
        """Queue the reading of the histories after the start of a connection."""
        self._events.put_nowait(_NewSocketSession())

    def take_envelope(self, envelope: SocketMessage) -> None:
        """Queue the event of an envelope; those of strangers and unknown kinds are dropped."""
        try:
            match envelope.type:
                case "events_api":
                    self._take_event(EventCallback.model_validate(envelope.payload))
                case "interactive":
                    self._take_press(BlockPress.model_validate(envelope.payload))
                case _:
                    return
        except ValidationError as error:
            log.info("event not known", gateway=self._gateway, errors=error.error_count())

    async def prepare(self, me: BotIdentity) -> None:
        """Mark the present end of the histories that were never read; raises as HistoryReader."""
        self._me = me
        for dm in self._dms():
            if self._marks.find(dm.address) is not None:
                continue
            try:
                newest = await self._history.find_newest(dm.address)
            except RefusedError as refusal:
                # One user must not keep the messages of the others waiting.
                log.warning("history not read", dm=dm.name, error=refusal.text)
            else:
                await self._marks.store(dm.address, SlackReadMark(floor=newest))

    async def run(self) -> None:
        """Store events until cancelled."""
        while True:
            event = await self._events.get()
            try:
                await self._handle(event)
            except Exception:  # outermost loop of the events: continue with the next
                log.exception("event not stored", gateway=self._gateway)

    def _take_event(self, callback: EventCallback) -> None:
        event = MessageEvent.model_validate(callback.event)
        is_group = event.channel_type in GROUP_TYPES
        if event.type != "message" or not (is_group or event.channel_type == "im"):
            return
        if is_group:
            self._log_unknown_group(event.channel)
        changed = event.message if event.subtype == "message_changed" else None
        message = MessageObject.model_validate(callback.event if changed is None else changed)
        if self._dm_of(message, event.channel) is not None:
            self._events.put_nowait(_ChannelMessage(message, event.channel))
        elif not is_group and changed is None and is_users(message) and message.user is not None:
            # Slack sends an id only; the reply goes to the user's own direct messages.
            self._strangers.add(Stranger(message.user, ""))

    def _log_unknown_group(self, channel: str) -> None:
        """Log the id of a channel once if it is not configured; the channel gets no answer."""
        is_logged = (
            channel in self._unknown_groups or len(self._unknown_groups) >= MAX_UNKNOWN_GROUPS
        )
        if not is_logged and all(dm.chat_id != channel for dm in self._dms()):
            self._unknown_groups.add(channel)
            log.info("group not configured", gateway=self._gateway, chat_id=channel)

    def _take_press(self, payload: BlockPress) -> None:
        press = parse_press(payload, self._gateway)
        if press is None or self._conversations.find(self._gateway, press.user_id) is None:
            return
        place = payload.container
        self._events.put_nowait(_ChannelPress(press, place.channel_id, place.thread_ts))

    async def _handle(self, event: _ChannelMessage | _ChannelPress | _NewSocketSession) -> None:
        match event:
            case _ChannelMessage(message, channel):
                dm = self._dm_of(message, channel)
                if dm is not None and (
                    dm.chat_id or await self._is_channel_of(dm.user_id, channel)
                ):
                    await self._store(message, dm, channel)
            case _ChannelPress(press, channel, thread_ts):
                if await self._is_channel_of(press.user_id, channel):
                    await self._press(press, thread_ts)
            case _NewSocketSession():
                for dm in self._dms():
                    # Without a mark nobody knows which messages are from before the DM was configured.
                    if self._marks.find(dm.address) is not None:
                        await self._catch_up(dm)

    async def _is_channel_of(self, user_id: str, channel: str) -> bool:
        """Return whether a channel is the user's direct messages with this app."""
        opened = await repeat_until_accepted(
            lambda: self._calls.open_channel(user_id, _deadline()), self._gateway
        )
        if opened == channel:
            return True
        log.warning("event of a foreign channel", gateway=self._gateway, user_id=user_id)
        return False

    async def _press(self, press: ButtonPress, thread_ts: str | None) -> None:
        """Send the press to control, then show its answer; control edits the message through its outbox."""
        response = await repeat_until_accepted(lambda: self._control.press(press), self._gateway)
        if response is None:
            return
        try:
            await self._calls.whisper(
                press.user_id, response.answer, deadline=_deadline(), thread_ts=thread_ts
            )
        except (ChoirError, RefusedError) as error:
            # The decision is visible in the conversation.
            log.info("press not answered", gateway=self._gateway, error=str(error))

    async def _catch_up(self, dm: DmBinding) -> None:
        """Store the messages since the mark; wait while Slack is unavailable, to keep the order."""
        mark = self._marks.find(dm.address) or SlackReadMark()
        missed = await repeat_until_accepted(
            lambda: self._history.fetch_missed(dm.address, mark), self._gateway
        )
        channel = await repeat_until_accepted(
            lambda: self._calls.open_channel(dm.address, _deadline()), self._gateway
        )
        if missed is None or channel is None:
            return
        for message in missed:
            owner = self._dm_of(message, channel)
            if owner is not None and owner.address == dm.address:
                await self._store(message, dm, channel)

    async def _store(self, message: MessageObject, dm: DmBinding, channel: str) -> None:
        """Send a message to control unless it is known to have it, then move the mark."""
        mark = self._marks.find(dm.address) or SlackReadMark()
        if mark.is_read(message):
            return
        if mark == SlackReadMark():
            # A user who was added while the gateway runs: what came before is not read.
            mark = SlackReadMark(floor=_before(message.ts))
        if dm.chat_id:
            await self._marks.store(dm.address, await self._hear(message, dm, channel, mark=mark))
            return
        is_edit = mark.knows(message.ts)
        choice = None if is_edit else self._choices.take(dm.user_id, message.text or "")
        if choice is not None:
            inbox_id = await self._choose(choice, message, dm, channel)
        else:
            inbox_id = await self._accept(message, dm, channel, is_edit=is_edit)
        await self._marks.store(dm.user_id, mark.add(message, inbox_id))

    async def _hear(
        self, message: MessageObject, dm: DmBinding, channel: str, *, mark: SlackReadMark
    ) -> SlackReadMark:
        """Send a message of a channel to control if it is for the agent; return the mark after it."""
        if not is_for_agent(message, dm, me=self._me, mark=mark):
            return mark.add(message, "")
        author = await self._members.find(message.user or "")
        if author is None:
            return mark.add(message, "")
        # An edit that adds the mention makes a message that the agent has never read.
        is_edit = mark.is_heard(message.ts) or mark.is_old(message.ts)
        text = remove_mention(message.text or "", self._me)
        content = message.model_copy(update={"text": text})
        inbox_id = await self._accept(content, dm, channel, is_edit=is_edit, author=author)
        return mark.follow(message.thread or message.ts).add(message, inbox_id, is_heard=True)

    async def _choose(
        self, choice: NumberedChoice, message: MessageObject, dm: DmBinding, channel: str
    ) -> str:
        """Send a choice by its number to control as the press of the button."""
        press = ButtonPress(
            gateway=self._gateway,
            user_id=dm.user_id,
            chat_id=dm.user_id,
            data=choice.data,
            message_id=choice.message_ts,
            callback_id=f"{channel}:{message.ts}",
        )
        await self._press(press, message.thread)
        return ""

    async def _accept(
        self,
        message: MessageObject,
        dm: DmBinding,
        channel: str,
        *,
        is_edit: bool,
        author: GroupMember | None = None,
    ) -> str:
        """Let control store a message; return control's id of it."""
        quoted = None
        # In a thread that is a conversation, a message does not answer the first one.
        if message.thread is not None and message.thread != dm.topic:
            root = await self._history.find_root(dm.address, message.thread)
            quoted = make_quote(root, message.thread)
        content = parse_message(
            message,
            self._gateway,
            dm,
            channel=channel,
            is_edit=is_edit,
            quoted=quoted,
            commands=self._conversations.commands,
            author=author,
        )
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(content), self._gateway
        )
        if acceptance is None:
            return ""
        # The note of a repeated message was sent before.
        if not acceptance.duplicate:
            # A command is answered at once, and the message that an edit corrects has its reaction.
            if acceptance.command is None and not is_edit:
                self._acknowledger.add(dm.address, message.ts)
            if acceptance.note is not None:
                self._notes.add(_address_of_answer(dm, message), acceptance.note)
        return acceptance.inbox_id

    def _dm_of(self, message: MessageObject, channel: str) -> DmBinding | None:
        """Return the DM of a message; None for strangers, apps and Slack's own notices."""
        if parse_group(channel) is not None:
            return find_group_dm(message, channel, self._gateway, self._conversations)
        if not is_users(message) or message.user is None:
            return None
        return self._conversations.find(self._gateway, message.user)

    def _dms(self) -> list[DmBinding]:
        dms = list(self._conversations.by_name.values())
        return [dm for dm in dms if dm.gateway == self._gateway]


def _address_of_answer(dm: DmBinding, message: MessageObject) -> str:
    """Return where a note about a message goes: to its thread, in a channel."""
    if not dm.chat_id or dm.topic:
        return dm.address
    return f"{dm.chat_id}/{message.thread or message.ts}"


def _before(ts: str) -> str:
    """Return a `ts` that is just before another one."""
    seconds, _, micros = ts.partition(".")
    total = int(seconds) * 1_000_000 + int(micros.ljust(6, "0")[:6]) - 1
    return f"{total // 1_000_000}.{total % 1_000_000:06}"


def _deadline() -> float:
    return asyncio.get_running_loop().time() + CALL_TIMEOUT_S
