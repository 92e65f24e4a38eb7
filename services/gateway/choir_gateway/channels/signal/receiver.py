"""Receiver of what people write: first to disk, then in order to control.

signal-cli hands each message over once. `take_frame` therefore only decides whether a message concerns a
configured conversation and writes it to the journal; `run` handles the journal.
"""

from dataclasses import dataclass
from datetime import datetime

import structlog
from pydantic import ValidationError

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.i18n import _, translate
from choir_common.wire.attachments import Button
from choir_common.wire.channel_config import ExpiringMessages
from choir_common.wire.messages import ButtonPress, DmBinding, InboundMessage, QuotedMessage
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.signal.addresses import SignalMessageId, compact_id, is_group
from choir_gateway.channels.signal.api_client import SignalApi
from choir_gateway.channels.signal.envelopes import (
    Envelope,
    ReceivedFrame,
    SignalContent,
    SignalQuote,
)
from choir_gateway.channels.signal.group_messages import (
    author_of,
    find_private_dm,
    is_addressed,
    make_member,
)
from choir_gateway.channels.signal.journal import SignalJournal
from choir_gateway.channels.signal.message_calls import QuotableTexts
from choir_gateway.channels.signal.message_parser import (
    MessageSource,
    OwnAccount,
    make_quote,
    parse_content,
    parse_deletion,
    read_text,
)
from choir_gateway.channels.signal.questions import SignalQuestionBook
from choir_gateway.channels.signal.reactions import SignalAcknowledger
from choir_gateway.channels.signal.state_store import SignalStateStore
from choir_gateway.channels.strangers import Stranger, StrangerReplies

log = structlog.get_logger("choir.gateway.signal")

MAX_UNKNOWN_GROUPS = 100
EXPIRING_NOTE = _(
    "Disappearing messages are on in this chat. Choir keeps what it reads, so your message was not read. "
    "Turn them off to talk here."
)
GAP_NOTE = _(
    "Choir was not connected to Signal from {since} to {until} UTC. What you wrote then may not have "
    "arrived, even if Signal shows it as delivered. If nothing answers it, send it again."
)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message of a configured conversation."""

    content: SignalContent
    source: MessageSource


class SignalReceiver:
    """Receiver of one account's messages."""

    def __init__(
        self,
        gateway: str,
        *,
        api: SignalApi,
        journal: SignalJournal,
        store: SignalStateStore,
        questions: SignalQuestionBook,
        texts: QuotableTexts,
        expiring: ExpiringMessages,
        control: ControlClient,
        conversations: ConversationDirectory,
        notes: NoteQueue,
        strangers: StrangerReplies,
        acknowledger: SignalAcknowledger,
    ) -> None:
        self._gateway = gateway
        self._api = api
        self._journal = journal
        self._store = store
        self._questions = questions
        self._texts = texts
        self._expiring = expiring
        self._control = control
        self._conversations = conversations
        self._notes = notes
        self._strangers = strangers
        self._acknowledger = acknowledger
        self._me = OwnAccount(api.number)
        self._unknown_groups: set[str] = set()

    async def take_frame(self, text: str) -> None:
        """Write a message to disk if it concerns a configured conversation."""
        frame = self._parse(text)
        if frame is None or frame.account not in (None, self._api.number):
            return
        if frame.error or frame.exception is not None:
            reason = frame.error or (frame.exception and frame.exception.type)
            log.warning("signal-cli could not read a message", gateway=self._gateway, error=reason)
        envelope = frame.envelope
        if envelope is None or self._is_own(envelope):
            return
        if self._locate(envelope) is not None:
            await self._journal.store(text)
        elif self._is_strangers(envelope):
            author = author_of(envelope)
            if author is not None:
                self._strangers.add(Stranger(author, envelope.source_name or ""))

    async def run(self) -> None:
        """Handle the journal until cancelled."""
        while True:
            entry = await self._journal.first()
            try:
                await self._handle(entry.text)
            except Exception:  # outermost loop of the messages: continue with the next
                log.exception("message not handled", gateway=self._gateway)
            await self._journal.remove(entry)

    def report_gap(self, since: datetime, until: datetime) -> None:
        """Tell the people who wrote lately that messages may be lost."""
        log.warning("not connected", gateway=self._gateway, since=since, until=until)
        gap = GAP_NOTE.format(since=f"{since:%Y-%m-%d %H:%M}", until=f"{until:%Y-%m-%d %H:%M}")
        for address in self._store.recent_addresses(until):
            dm = self._conversations.find(self._gateway, address)
            if dm is not None:
                self._notes.add(address, translate(gap, dm.language))

    def _parse(self, text: str) -> ReceivedFrame | None:
        try:
            return ReceivedFrame.model_validate_json(text)
        except ValidationError as error:
            log.error("frame of another form", gateway=self._gateway, error=str(error)[:300])
            return None

    def _is_own(self, envelope: Envelope) -> bool:
        """Return whether the account itself sent it, from another device; learn its id then."""
        if envelope.source_number == self._me.number and envelope.source_uuid:
            self._me = OwnAccount(self._me.number, compact_id(envelope.source_uuid) or "")
        return self._me.is_self(envelope.source_number, envelope.source_uuid)

    def _is_strangers(self, envelope: Envelope) -> bool:
        message = envelope.message
        is_private = message is not None and message.group is None and message.story is None
        return message is not None and is_private and message.has_content

    def _locate(self, envelope: Envelope) -> _Arrival | None:
        """Return a message of a configured conversation that concerns the agent; None for all others."""
        content, author = envelope.content, author_of(envelope)
        if content is None or author is None or content.story is not None:
            return None
        if content.group is None:
            dm = find_private_dm(envelope, author, self._gateway, self._conversations)
        else:
            dm = self._conversations.find_group(self._gateway, content.group.address)
            self._log_unknown_group(dm, content.group.address)
        if dm is None:
            return None
        source = self._make_source(envelope, content, author, dm)
        if content.group is not None and not self._is_for_agent(content, source):
            return None
        return _Arrival(content, source)

    def _make_source(
        self, envelope: Envelope, content: SignalContent, author: str, dm: DmBinding
    ) -> MessageSource:
        message = first = SignalMessageId(content.timestamp, author)
        earlier = envelope.edit.target_timestamp if envelope.edit else None
        if content.deletion is not None:
            earlier = content.deletion.timestamp
        if earlier is not None:
            first = self._first_version(SignalMessageId(earlier, author))
        # An edit that adds the mention makes a message that the agent has never read.
        is_known = dm.chat_id == "" or self._is_handled(first)
        if not is_known and content.deletion is None:
            first = message
        return MessageSource(
            self._gateway,
            dm,
            message,
            first,
            is_edit=earlier is not None and is_known,
            author=make_member(envelope, author, self._gateway, self._conversations)
            if dm.chat_id
            else None,
        )

    def _is_for_agent(self, content: SignalContent, source: MessageSource) -> bool:
        if content.reaction is not None:
            return False
        if content.deletion is not None or source.is_edit:
            return self._is_handled(source.first)
        return source.dm.answers == "all" or is_addressed(content, self._me)

    def _is_handled(self, message: SignalMessageId) -> bool:
        return self._store.is_handled(str(message))

    def _first_version(self, message: SignalMessageId) -> SignalMessageId:
        first = self._store.first_version(str(message))
        timestamp, _, author = first.partition("/")
        return SignalMessageId(int(timestamp), author or None)

    def _log_unknown_group(self, dm: DmBinding | None, address: str) -> None:
        """Log the id of a group once if it is not configured; the group gets no answer."""
        if dm is not None or address in self._unknown_groups or not is_group(address):
            return
        if len(self._unknown_groups) < MAX_UNKNOWN_GROUPS:
            self._unknown_groups.add(address)
            log.info("group not configured", gateway=self._gateway, chat_id=address)

    async def _handle(self, text: str) -> None:
        frame = self._parse(text)
        envelope = frame.envelope if frame else None
        arrival = self._locate(envelope) if envelope else None
        if arrival is None or self._is_handled(arrival.source.message):
            return
        content, source = arrival.content, arrival.source
        if content.reaction is not None:
            await self._take_reaction(content, source)
        elif content.deletion is not None:
            if self._is_handled(source.first):
                await self._accept(parse_deletion(content, source), source)
        elif content.has_content and content.expires_in_seconds and self._expiring == "refuse":
            self._notes.add(source.dm.address, translate(EXPIRING_NOTE, source.dm.language))
        elif content.has_content:
            await self._take_message(content, source)
        await self._store.note_handled(source.update_id, source.dm.user_id)
        if source.is_edit:
            await self._store.note_revision(str(source.message), str(source.first))

    async def _take_message(self, content: SignalContent, source: MessageSource) -> None:
        quoted = self._quote(content.quote, source) if content.quote else None
        text = read_text(content, self._me)
        button = None
        if not source.is_edit and not source.dm.chat_id:
            reply_to = quoted.message_id if quoted else None
            button = self._questions.find_by_number(source.dm.user_id, text, reply_to)
        if button is not None:
            await self._press(source, button, quoted.message_id if quoted else None)
            return
        if content.view_once:
            await self._delete_files(content)
        self._texts.add(str(source.first), text)
        await self._accept(parse_content(content, source, self._me, quoted), source)

    async def _take_reaction(self, content: SignalContent, source: MessageSource) -> None:
        reaction = content.reaction
        if reaction is None or reaction.is_remove or source.dm.chat_id:
            return
        target = self._store.first_version(str(SignalMessageId(reaction.target_timestamp)))
        button = self._questions.find_by_reaction(source.dm.user_id, target, reaction.emoji)
        if button is not None:
            await self._press(source, button, target)

    def _quote(self, quote: SignalQuote, source: MessageSource) -> QuotedMessage:
        author = compact_id(quote.author_uuid or "")
        # In a private chat, the other author is the agent's account.
        is_own = self._me.is_self(quote.author_number, quote.author_uuid) or (
            source.author is None and author != source.message.author
        )
        quoted = SignalMessageId(quote.id, None if is_own else author)
        return make_quote(self._store.first_version(str(quoted)), quote.text)

    async def _accept(self, message: InboundMessage, source: MessageSource) -> None:
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(message), self._gateway
        )
        # The note of a repeated message was sent before.
        if acceptance is None or acceptance.duplicate:
            return
        # A command is answered at once, and the message that an edit corrects has its reaction.
        if acceptance.command is None and message.edits is None:
            self._acknowledger.add(source.dm.address, source.message)
        if acceptance.note is not None:
            self._notes.add(source.dm.address, acceptance.note)

    async def _press(self, source: MessageSource, button: Button, message_id: str | None) -> None:
        press = ButtonPress(
            gateway=self._gateway,
            user_id=source.dm.user_id,
            chat_id=source.dm.user_id,
            data=button.data,
            message_id=message_id,
            callback_id=source.update_id,
        )
        response = await repeat_until_accepted(lambda: self._control.press(press), self._gateway)
        if response is not None:
            self._notes.add(source.dm.user_id, response.answer)

    async def _delete_files(self, content: SignalContent) -> None:
        """Delete the copies of view-once files that signal-cli has made; best effort."""
        for file in content.attachments:
            try:
                await self._api.delete_attachment(file.id or "")
            except (ChoirError, RefusedError) as error:
                log.warning("view-once file not deleted", gateway=self._gateway, error=str(error))
