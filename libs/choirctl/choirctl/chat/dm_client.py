"""Client for one DM: sends messages, and receives each message of the DM once. Used by `chat` and
`terminal_chat`.

The event stream is open before the first message is sent, so no answer can be missed. It resumes after the
last message received (Last-Event-ID); duplicates are dropped.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from choir_common.backoff import Backoff
from choir_common.errors import DeadlineExceeded, RateLimited, Unavailable
from choir_common.http.response_parser import parse_events
from choir_common.ids import new_id
from choir_common.wire.activity import Card, Draft, DraftDelta, Idle, Typing
from choir_common.wire.messages import (
    ButtonResponse,
    InboundAccepted,
    OutboundHistory,
    OutboundMessage,
)
from choirctl.api.control import ControlClient, parse_response

M = TypeVar("M", bound=BaseModel)
MAX_UNREAD = 1000  # further messages wait in the stream, and in the outbox
RECENT = 500  # outbox ids; they are shared by all DMs, so this yields at most 500 messages
READ_TIMEOUT_S = 40.0  # the stream sends a keepalive every 15 s
FIRST_RETRY_S = 0.1
MAX_RETRY_S = 2.0
SEND_TIMEOUT_S = 30.0


DmEvent = OutboundMessage | Card | Draft | Typing | Idle
"""A message, or a transient activity event: a progress card, the draft of a reply so far, or that an agent is
typing or idle."""
_ACTIVITY: TypeAdapter[Typing | Idle] = TypeAdapter(
    Annotated[Typing | Idle, Field(discriminator="kind")]
)


class MessageRequest(BaseModel):
    """Request body of a message; the idempotency key identifies retries."""

    model_config = ConfigDict(frozen=True)

    text: str
    idempotency_key: str
    files: tuple[str, ...] | None = None
    """The refs of files uploaded before; None is omitted, for gateways that do not know the field."""
    edits: str | None = None
    """The idempotency key of the earlier message that this one corrects."""


class PressRequest(BaseModel):
    """Request body of a button press; the idempotency key identifies retries."""

    model_config = ConfigDict(frozen=True)

    data: str
    message_id: str
    idempotency_key: str


@dataclass(slots=True)
class StreamState:
    """State of the event stream: the last outbox id received, and whether it is open."""

    last_id: int | None = None
    is_open: bool = False


class DmClient:
    """One DM from the user's side; created by `open_dm`."""

    def __init__(self, api: ControlClient, dm: str) -> None:
        self._api = api
        self._dm = dm
        self._unread: asyncio.Queue[DmEvent] = asyncio.Queue(MAX_UNREAD)
        self._stream_state = StreamState()

    @property
    def is_connected(self) -> bool:
        """Return whether the event stream is open."""
        return self._stream_state.is_open

    async def send_message(
        self, text: str, files: Sequence[str] = (), *, key: str = "", edits: str | None = None
    ) -> InboundAccepted:
        """Send a message; retry with the same key while Choir is unavailable or limits the rate.

        `edits` is the key of an earlier message that this one corrects. Raises NotFound for an unknown DM or
        file, Unavailable if it was not accepted within 30 s, DeadlineExceeded if a part of Choir hangs.
        """
        body = MessageRequest(
            text=text,
            idempotency_key=key or new_id("cli"),
            files=tuple(files) or None,
            edits=edits,
        )
        return await self._post("messages", body, InboundAccepted)

    async def press_button(self, message: OutboundMessage, data: str) -> ButtonResponse:
        """Press a button of a message; its decision is durable on return. Raises the errors of
        `say`."""
        body = PressRequest(
            data=data, message_id=str(message.outbox_id), idempotency_key=new_id("cli")
        )
        return await self._post("press", body, ButtonResponse)

    async def _post(self, what: str, body: BaseModel, shape: type[M]) -> M:
        deadline = time.monotonic() + SEND_TIMEOUT_S
        backoff = Backoff(FIRST_RETRY_S, MAX_RETRY_S)
        while True:
            pause_s = backoff.pause_s()
            try:
                path = f"/v1/dms/{self._dm}/{what}"
                return parse_response(await self._api.send("POST", path, body=body), shape)
            except (Unavailable, RateLimited):
                if time.monotonic() + pause_s > deadline:
                    raise
            except DeadlineExceeded as error:
                # report a hanging service at once: a retry would take the whole timeout again
                raise DeadlineExceeded(
                    f"{error.message} Whether this was accepted is not known."
                ) from error
            await asyncio.sleep(pause_s)

    async def receive(self) -> DmEvent:
        """Wait for the next message or activity event and return it."""
        return await self._unread.get()

    async def recent_messages(self) -> tuple[OutboundMessage, ...]:
        """Return the newest messages of the DM before the stream began, oldest first.

        They may contain approval requests that are still pending.
        """
        after = max(0, (self._stream_state.last_id or 0) - RECENT)
        path = f"/v1/dms/{self._dm}/messages"
        params = {"after": str(after), "limit": str(RECENT)}
        messages = parse_response(
            await self._api.send("GET", path, params=params), OutboundHistory
        ).messages
        # newer messages arrive through the stream
        return tuple(it for it in messages if it.outbox_id <= (self._stream_state.last_id or 0))

    async def follow_stream(self, opened: asyncio.Event) -> None:
        """Follow the stream and reconnect until cancelled; sets `opened` when it is open the first time.

        Raises NotFound for an unknown DM, and other errors that a retry cannot fix.
        """
        backoff = Backoff(FIRST_RETRY_S, MAX_RETRY_S)
        while True:
            try:
                async for message in self._stream(opened):
                    backoff.reset()
                    await self._enqueue(message)
            except DeadlineExceeded:
                # before the first connection a hanging service is an error; later it is retried
                if not opened.is_set():
                    raise
            except (httpx2.HTTPError, Unavailable, RateLimited):
                if not opened.is_set() and backoff.is_at_limit:
                    raise
            finally:
                self._stream_state.is_open = False
            await asyncio.sleep(backoff.pause_s())

    async def _stream(self, opened: asyncio.Event) -> AsyncIterator[DmEvent]:
        if self._stream_state.last_id is None:
            self._stream_state.last_id = await self._newest_id()
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._stream_state.last_id)}
        timeout = httpx2.Timeout(10.0, read=READ_TIMEOUT_S)
        path = f"/v1/dms/{self._dm}/events"
        async with contextlib.aclosing(
            await self._api.open_stream(path, headers, timeout)
        ) as answer:
            self._stream_state.is_open = True
            opened.set()
            draft = ""
            async for event in parse_events(answer.aiter_bytes()):
                match event.event:
                    case "message" | "edit":
                        yield OutboundMessage.model_validate_json(event.data)
                    case "card":
                        yield Card.model_validate_json(event.data)
                    case "delta":
                        delta = DraftDelta.model_validate_json(event.data)
                        draft = draft[: delta.offset] + delta.text
                        yield Draft(text=draft)
                    case "activity":
                        yield _ACTIVITY.validate_json(event.data)
                    case _:
                        pass  # an event type that this version of choirctl does not know

    async def _newest_id(self) -> int:
        """Return the DM's newest outbox id: every stream starts after it, so none can skip a message."""
        path = f"/v1/dms/{self._dm}/messages"
        answer = await self._api.send("GET", path, params={"after": "0", "limit": "1"})
        return parse_response(answer, OutboundHistory).last

    async def _enqueue(self, message: DmEvent) -> None:
        """Queue an event for `hear`; drop duplicate messages, and activity if the queue is full."""
        if not isinstance(message, OutboundMessage):
            with contextlib.suppress(asyncio.QueueFull):
                self._unread.put_nowait(message)
            return
        if message.outbox_id <= (self._stream_state.last_id or 0):
            return
        # only after the put: if it is cancelled, the stream has to deliver the message again
        await self._unread.put(message)
        self._stream_state.last_id = message.outbox_id


@contextlib.asynccontextmanager
async def open_dm(api: ControlClient, dm: str) -> AsyncIterator[DmClient]:
    """Open a conversation; the block starts when the stream is open.

    Raises (in a group) the errors of `DmClient.follow_stream`.
    """
    conversation = DmClient(api, dm)
    opened = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(conversation.follow_stream(opened))
        await opened.wait()
        try:
            yield conversation
        finally:
            listening.cancel()
