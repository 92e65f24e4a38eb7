"""The event streams of the console, with the messages that a client missed.

Called by `console` (accept, follow, press) and `channel_registry` (deliver, show). Messages are not
stored here. A client with `Last-Event-ID` first receives the later messages from control's outbox,
then new ones. An agent's activity is shown only to clients that are connected.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, TooLarge
from choir_common.http.sse import KEEPALIVE, KEEPALIVE_S, ServerSentEvent, render_event
from choir_common.wire.activity import Card, DmActivity, Idle, Typing
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    DeliveryReceipt,
    HistoryRequest,
    InboundAccepted,
    InboundMessage,
    OutboundHistory,
    OutboundMessage,
    QuotedMessage,
)
from choir_gateway.channels.console.spool import FileSpool

log = structlog.get_logger("choir.gateway.console")

# A stream this far behind is closed; the client resumes from the outbox.
QUEUE_SIZE = 256
# An edit refers to the key of the message that it corrects, which cannot be longer than this.
MAX_MESSAGE_ID = 64
PAGE = 200
MAX_OPEN_CARDS = 50  # open ones stored per DM


@dataclass(frozen=True, slots=True)
class ConsoleMessage:
    """A validated message of a user at the console."""

    key: str
    text: str
    files: Sequence[str] = ()
    edits: str | None = None
    reply_to: QuotedMessage | None = None


class _EventStream:
    """One open stream."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[OutboundMessage | DmActivity | None] = asyncio.Queue(QUEUE_SIZE)
        self.cut = False

    def send(self, message: OutboundMessage | None) -> None:
        """Queue a message, or close the stream if the client is too slow; None ends the stream."""
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.cut = True

    def show(self, activity: DmActivity) -> None:
        """Queue an activity if the queue is less than half full, so that messages never lack space."""
        if self.queue.qsize() < QUEUE_SIZE // 2:
            self.queue.put_nowait(activity)


class ConsoleChannel:
    """Hub of the open streams and the open cards, by DM."""

    def __init__(
        self, control: ControlClient, spool: FileSpool, outbox_files: OutboxFilesClient
    ) -> None:
        self.spool = spool
        self._control = control
        self._outbox_files = outbox_files
        self._followers: dict[str, set[_EventStream]] = {}
        self._cards: dict[str, dict[str, DmActivity]] = {}
        self._closed = False

    async def accept(self, gateway: str, dm: str, saying: ConsoleMessage) -> InboundAccepted:
        """Store a user's message; returns once it is durable.

        Raises NotFound for a file that belongs to another DM or was deleted.
        """
        files = [await self.spool.read_description(dm, ref) for ref in saying.files]
        return await self._control.accept(
            InboundMessage(
                gateway=gateway,
                dm=dm,
                # Clients choose the keys, so those of different DMs must not collide.
                update_id=f"{dm}:{saying.key}",
                text=saying.text,
                sent_at=datetime.now(UTC),
                attachments=tuple(files),
                message_id=saying.key if len(saying.key) <= MAX_MESSAGE_ID else None,
                edits=saying.edits,
                reply_to=saying.reply_to,
            )
        )

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Press a button; the decision is durable when this returns."""
        return await self._control.press(press)

    async def history(self, dm: str, after: int, limit: int) -> OutboundHistory:
        """Return the messages of a DM after an id."""
        return await self._control.history(HistoryRequest(dm=dm, after=after, limit=limit))

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        """Send a message to all open streams of its DM; other clients read it from the outbox.

        The files are fetched first, because control deletes its copies once this returns.
        """
        detail = "; ".join(
            [why for each in message.attachments if (why := await self._fetch_file(message, each))]
        )
        for follower in self._followers.get(message.dm, ()):
            follower.send(message)
        number = str(message.outbox_id)
        return DeliveryReceipt(
            outbox_id=message.outbox_id, status="delivered", detail=detail, message_id=number
        )

    @contextlib.asynccontextmanager
    async def open_upload(self, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user uploaded; raises NotFound if it was deleted."""
        yield await self.spool.open_upload(ref)

    async def open_file(
        self, dm: str, outbox_id: int, ref: str
    ) -> tuple[Attachment, AsyncIterator[bytes]]:
        """Return a file of a message and its bytes; raises NotFound."""
        page = await self.history(dm, outbox_id - 1, 1)
        for message in page.messages:
            for each in message.attachments:
                if message.outbox_id == outbox_id and each.ref == ref:
                    await self._fetch_file(message, each)
                    return each, await self.spool.open_outgoing(dm, outbox_id, ref)
        raise NotFound(f"No message {outbox_id} of this conversation has such a file.")

    def show(self, activity: DmActivity) -> None:
        """Send an activity to all open streams of its DM; open cards are repeated to later clients."""
        match activity.what:
            case Card(done=True) as card:
                self._cards.get(activity.dm, {}).pop(card.card_id, None)
            case Card() as card:
                cards = self._cards.setdefault(activity.dm, {})
                cards[card.card_id] = activity
                while len(cards) > MAX_OPEN_CARDS:
                    del cards[next(iter(cards))]
            case Typing() | Idle():
                pass
        for follower in self._followers.get(activity.dm, ()):
            follower.show(activity)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for followers in self._followers.values():
            for follower in followers:
                follower.send(None)

    async def follow(self, dm: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield the event stream of a DM; `after` is the last id that the client has."""
        follower = _EventStream()
        # Registered before the outbox is read, so that messages arriving meanwhile wait in the
        # queue.
        self._followers.setdefault(dm, set()).add(follower)
        try:
            yield KEEPALIVE
            for card in list(self._cards.get(dm, {}).values()):
                yield _shown(card)
            seen = after or 0
            if after is not None:
                async for message in self._replay(dm, after):
                    seen = message.outbox_id
                    yield _event(message)
            async for piece in self._live(follower, seen):
                yield piece
        except ChoirError as error:
            # The client reconnects and resumes after the last id that it has.
            log.warning("stream ended", dm=dm, reason=error.message)
        finally:
            self._forget(dm, follower)

    async def _replay(self, dm: str, after: int) -> AsyncIterator[OutboundMessage]:
        while True:
            page = await self.history(dm, after, PAGE)
            for message in page.messages:
                yield message
                after = message.outbox_id
            if len(page.messages) < PAGE:
                return

    async def _live(self, follower: _EventStream, seen: int) -> AsyncIterator[bytes]:
        while not (self._closed or follower.cut):
            try:
                async with asyncio.timeout(KEEPALIVE_S):
                    heard = await follower.queue.get()
            except TimeoutError:
                yield KEEPALIVE
                continue
            match heard:
                case None:
                    return
                case DmActivity():
                    yield _shown(heard)
                # A delivery that was repeated after a lost receipt has an id that was sent before.
                case OutboundMessage() if heard.outbox_id > seen:
                    seen = heard.outbox_id
                    yield _event(heard)
                case OutboundMessage():
                    pass

    async def _fetch_file(self, message: OutboundMessage, each: Attachment) -> str:
        """Fetch a file into the spool; return the reason if that is impossible, or else ""."""
        try:
            await self.spool.store_outgoing(
                message.dm, message.outbox_id, each.ref, self._bytes_of(message.outbox_id, each.ref)
            )
        except (NotFound, TooLarge) as error:
            return f"{each.name}: {error.message}"
        return ""

    async def _bytes_of(self, outbox_id: int, ref: str) -> AsyncIterator[bytes]:
        async with self._outbox_files.open(outbox_id, ref) as pieces:
            async for piece in pieces:
                yield piece

    def _forget(self, dm: str, follower: _EventStream) -> None:
        followers = self._followers.get(dm, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(dm, None)


def _event(message: OutboundMessage) -> bytes:
    kind = "message" if message.edits is None else "edit"
    return render_event(ServerSentEvent(str(message.outbox_id), kind, message.model_dump_json()))


def _shown(activity: DmActivity) -> bytes:
    """Return the SSE event without an id, because no client resumes from it."""
    kind = "card" if isinstance(activity.what, Card) else "activity"
    return render_event(ServerSentEvent("", kind, activity.what.model_dump_json()))
