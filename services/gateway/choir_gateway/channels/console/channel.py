"""The event streams of the console, with the messages that a client missed.

Messages are not stored here. A client with `Last-Event-ID` first receives the later messages from
control's outbox, then new ones. An agent's activity is shown only to clients that are connected. Changes of
a draft are not queued: a stream sends what is new when it gets to it, so a slow client delays nobody.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Literal, assert_never

import structlog

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, TooLarge
from choir_common.http.console_messages import ConsoleMessage
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import KEEPALIVE, KEEPALIVE_S, render_event
from choir_common.i18n import _
from choir_common.wire.activity import Card, DmActivity, Draft, DraftDelta, Idle, Typing
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    DeliveryReceipt,
    GatewayBinding,
    HistoryRequest,
    InboundAccepted,
    OutboundHistory,
    OutboundMessage,
)
from choir_gateway.channels.console.drafts import DraftTable, delta_between, is_final_reply
from choir_gateway.channels.interface import ChannelSecrets
from choir_gateway.channels.spool import FileSpool

log = structlog.get_logger("choir.gateway.console")

# A stream this far behind is closed; the client resumes from the outbox.
QUEUE_SIZE = 256
PAGE = 200
MAX_OPEN_CARDS = 50  # open ones stored per DM


_StreamItem = OutboundMessage | DmActivity | Literal["draft"] | None
"""What a stream has to send; `draft`: the changes of the DM's draft. None ends the stream."""


class _EventStream:
    """One open stream."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[_StreamItem] = asyncio.Queue(QUEUE_SIZE)
        self.cut = False
        self.draft = ""
        """The draft as the client has it."""
        self._is_draft_queued = False

    def send(self, message: OutboundMessage | None) -> None:
        """Queue a message, or close the stream if the client is too slow; None ends the stream."""
        # A draft after this message is another one and needs its own entry.
        self._is_draft_queued = False
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.cut = True

    def show(self, activity: DmActivity) -> None:
        """Queue an activity if the queue is less than half full, so that messages never lack space."""
        if self.queue.qsize() < QUEUE_SIZE // 2:
            self.queue.put_nowait(activity)

    def show_draft(self) -> None:
        """Queue that the draft has changed, unless that is queued already or the queue is half full."""
        if not self._is_draft_queued and self.queue.qsize() < QUEUE_SIZE // 2:
            self.queue.put_nowait("draft")
            self._is_draft_queued = True

    def take_delta(self, now: str) -> DraftDelta | None:
        """Return what the client lacks of the draft `now`, and count it as sent."""
        self._is_draft_queued = False
        delta, self.draft = delta_between(self.draft, now), now
        return delta


class ConsoleChannel:
    """Channel of all console gateways: the open streams and the open cards, by DM."""

    def __init__(
        self, control: ControlClient, spool: FileSpool, outbox_files: OutboxFilesClient
    ) -> None:
        self.spool = spool
        self._control = control
        self._outbox_files = outbox_files
        self._streams: dict[str, set[_EventStream]] = {}
        self._cards: dict[str, dict[str, DmActivity]] = {}
        self._drafts = DraftTable()
        self._closed = False

    async def accept(self, gateway: str, dm: str, message: ConsoleMessage) -> InboundAccepted:
        """Store a user's message; returns once it is durable.

        Raises NotFound for a file that belongs to another DM or was deleted.
        """
        files = [await self.spool.read_description(dm, ref) for ref in message.files]
        return await self._control.accept(message.to_inbound(gateway, dm, files))

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Press a button; the decision is durable when this returns."""
        return await self._control.press(press)

    async def history(self, dm: str, after: int, limit: int) -> OutboundHistory:
        """Return the messages of a DM after an id."""
        return await self._control.history(HistoryRequest(dm=dm, after=after, limit=limit))

    async def run(self) -> None:
        """Return at once: clients connect through the HTTP routes."""

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message to all open streams of its DM; other clients read it from the outbox.

        The files are fetched first, because control deletes its copies once this returns.
        """
        detail = "; ".join(
            [
                reason
                for attachment in message.attachments
                if (reason := await self._fetch_file(message, attachment))
            ]
        )
        if is_final_reply(message):
            self._drafts.end(message.dm)
        for stream in self._streams.get(message.dm, ()):
            stream.send(message)
        return DeliveryReceipt(
            outbox_id=message.outbox_id,
            status="delivered",
            detail=detail,
            message_id=str(message.outbox_id),
        )

    @contextlib.asynccontextmanager
    async def open_file(self, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user uploaded; raises NotFound if it was deleted."""
        yield await self.spool.open_upload(ref)

    async def open_sent_file(
        self, dm: str, outbox_id: int, ref: str
    ) -> tuple[Attachment, AsyncIterator[bytes]]:
        """Return a file of a message and its bytes; raises NotFound."""
        page = await self.history(dm, outbox_id - 1, 1)
        for message in page.messages:
            for attachment in message.attachments:
                if message.outbox_id == outbox_id and attachment.ref == ref:
                    await self._fetch_file(message, attachment)
                    return attachment, await self.spool.open_outgoing(dm, outbox_id, ref)
        raise NotFound(
            _("No message {outbox_id} of this conversation has such a file.").format(
                outbox_id=outbox_id
            )
        )

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: consoles have no webhook."""
        raise NotFound(_("A console has no webhook."))

    def state(self) -> None:
        """Return None: the console has no connection that could fail."""

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Send an activity to all open streams of its DM; open cards are repeated to later clients."""
        match activity.what:
            case Card(done=True) as card:
                self._cards.get(activity.dm, {}).pop(card.card_id, None)
            case Card() as card:
                cards = self._cards.setdefault(activity.dm, {})
                cards[card.card_id] = activity
                while len(cards) > MAX_OPEN_CARDS:
                    del cards[next(iter(cards))]
            case Draft(text=text):
                self._drafts.update(activity.dm, text)
                for stream in self._streams.get(activity.dm, ()):
                    stream.show_draft()
                return
            case Idle():
                self._drafts.end(activity.dm)
            case Typing():
                pass
            case other:
                assert_never(other)
        for stream in self._streams.get(activity.dm, ()):
            stream.show(activity)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        self.end_streams()

    def end_streams(self) -> None:
        """End all streams; the clients connect again."""
        for streams in self._streams.values():
            for stream in streams:
                stream.send(None)

    async def follow(self, dm: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield the event stream of a DM; `after` is the last id that the client has."""
        stream = _EventStream()
        # Registered before the outbox is read, so that messages arriving meanwhile wait in the
        # queue.
        self._streams.setdefault(dm, set()).add(stream)
        try:
            yield KEEPALIVE
            for card in list(self._cards.get(dm, {}).values()):
                yield _activity_event(card)
            seen = after or 0
            if after is not None:
                async for message in self._replay(dm, after):
                    seen = message.outbox_id
                    yield _message_event(message)
            if (delta := stream.take_delta(self._drafts.text_of(dm))) is not None:
                yield _delta_event(delta)
            async for piece in self._live(dm, stream, seen):
                yield piece
        except ChoirError as error:
            # The client reconnects and resumes after the last id that it has.
            log.warning("stream ended", dm=dm, error=error.message)
        finally:
            self._forget(dm, stream)

    async def _replay(self, dm: str, after: int) -> AsyncIterator[OutboundMessage]:
        while True:
            page = await self.history(dm, after, PAGE)
            for message in page.messages:
                yield message
                after = message.outbox_id
            if len(page.messages) < PAGE:
                return

    async def _live(self, dm: str, stream: _EventStream, seen: int) -> AsyncIterator[bytes]:
        while not (self._closed or stream.cut):
            try:
                async with asyncio.timeout(KEEPALIVE_S):
                    item = await stream.queue.get()
            except TimeoutError:
                yield KEEPALIVE
                continue
            match item:
                case None:
                    return
                case "draft":
                    if (delta := stream.take_delta(self._drafts.text_of(dm))) is not None:
                        yield _delta_event(delta)
                case DmActivity():
                    if isinstance(item.what, Idle):
                        stream.draft = ""
                    yield _activity_event(item)
                # A delivery that was repeated after a lost receipt has an id that was sent before.
                case OutboundMessage() if item.outbox_id > seen:
                    seen = item.outbox_id
                    if is_final_reply(item):
                        stream.draft = ""
                    yield _message_event(item)
                case OutboundMessage():
                    pass
                case other:
                    assert_never(other)

    async def _fetch_file(self, message: OutboundMessage, attachment: Attachment) -> str:
        """Fetch a file into the spool; return the reason if that is impossible, or else ""."""
        try:
            await self.spool.store_outgoing(
                message.dm,
                message.outbox_id,
                attachment.ref,
                self._read_from_control(message.outbox_id, attachment.ref),
            )
        except (NotFound, TooLarge) as error:
            return f"{attachment.name}: {error.message}"
        return ""

    async def _read_from_control(self, outbox_id: int, ref: str) -> AsyncIterator[bytes]:
        async with self._outbox_files.open(outbox_id, ref) as pieces:
            async for piece in pieces:
                yield piece

    def _forget(self, dm: str, stream: _EventStream) -> None:
        streams = self._streams.get(dm, set())
        streams.discard(stream)
        if not streams:
            self._streams.pop(dm, None)


class ConsoleChannelFactory:
    """Factory of console channels: one object serves all console gateways."""

    def __init__(self, console: ConsoleChannel) -> None:
        self._console = console

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> ConsoleChannel:
        """Return the channel."""
        return self._console


def _message_event(message: OutboundMessage) -> bytes:
    kind = "message" if message.edits is None else "edit"
    return render_event(ServerSentEvent(str(message.outbox_id), kind, message.model_dump_json()))


def _activity_event(activity: DmActivity) -> bytes:
    """Return the SSE event without an id, because no client resumes from it."""
    kind = "card" if isinstance(activity.what, Card) else "activity"
    return render_event(ServerSentEvent("", kind, activity.what.model_dump_json()))


def _delta_event(delta: DraftDelta) -> bytes:
    """Return the SSE event without an id: the stored message replaces the draft."""
    return render_event(ServerSentEvent("", "delta", delta.model_dump_json()))
