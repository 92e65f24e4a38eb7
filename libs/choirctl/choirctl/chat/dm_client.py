"""Client for one DM: sends messages, and receives each message of the DM once. Used by `chat` and
`terminal_chat`.

The event stream is open before the first message is sent, so no answer can be missed.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Sequence

from choir_client import AsyncConversation, ConversationEvent
from choir_common.wire.messages import ButtonResponse, InboundAccepted, OutboundMessage
from choirctl.api.control import ControlClient

MAX_UNREAD = 1000  # further messages wait in the stream, and in the outbox
RECENT = 500  # outbox ids; they are shared by all DMs, so this yields at most 500 messages


class DmClient:
    """One DM from the user's side; created by `open_dm`."""

    def __init__(self, conversation: AsyncConversation) -> None:
        self._conversation = conversation
        self._unread: asyncio.Queue[ConversationEvent] = asyncio.Queue(MAX_UNREAD)
        self._stream = conversation.follow(reconnect_s=math.inf)

    @property
    def is_connected(self) -> bool:
        """Return whether the event stream is open."""
        return self._stream.is_open

    async def send_message(
        self, text: str, files: Sequence[str] = (), *, key: str = "", edits: str | None = None
    ) -> InboundAccepted:
        """Send a message; `edits` is the key of an earlier message that this one corrects.

        Raises the errors of `AsyncConversation.send`.
        """
        return await self._conversation.post(
            text, files=files, idempotency_key=key or None, edits=edits
        )

    async def press_button(self, message: OutboundMessage, data: str) -> ButtonResponse:
        """Press a button of a message; its decision is durable on return. Raises as `send_message` does."""
        return await self._conversation.press(message, data)

    async def receive(self) -> ConversationEvent:
        """Wait for the next message or activity event and return it."""
        return await self._unread.get()

    async def recent_messages(self) -> tuple[OutboundMessage, ...]:
        """Return the newest messages of the DM before the stream began, oldest first.

        They may contain approval requests that are still pending.
        """
        last_id = self._stream.last_id or 0
        page = await self._conversation.history(max(0, last_id - RECENT), RECENT)
        # newer messages arrive through the stream
        return tuple(it for it in page.messages if it.outbox_id <= (self._stream.last_id or 0))

    async def follow_stream(self, opened: asyncio.Event) -> None:
        """Follow the stream and reconnect until cancelled; sets `opened` when it is open the first time.

        Raises NotFound for an unknown DM, and other errors that a retry cannot fix.
        """
        async with contextlib.aclosing(self._stream.with_ticks()) as events:
            async for event in events:
                opened.set()
                if event is not None:
                    await self._enqueue(event)

    async def _enqueue(self, event: ConversationEvent) -> None:
        """Queue an event for `receive`; drop activity if the queue is full."""
        if isinstance(event, OutboundMessage):
            await self._unread.put(event)
            return
        with contextlib.suppress(asyncio.QueueFull):
            self._unread.put_nowait(event)


@contextlib.asynccontextmanager
async def open_dm(api: ControlClient, dm: str) -> AsyncIterator[DmClient]:
    """Open a conversation; the block starts when the stream is open.

    Raises (in a group) the errors of `DmClient.follow_stream`.
    """
    conversation = DmClient(api.conversation(dm))
    opened = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(conversation.follow_stream(opened))
        await opened.wait()
        try:
            yield conversation
        finally:
            listening.cancel()
