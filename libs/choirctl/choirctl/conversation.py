"""Say things in a DM and hear everything that is said to it, each thing once. Used by `chat` and `talk`.

The event stream is open before the first word goes out, so no answer can slip between. It begins, and after
a cut goes on, after the last message heard (Last-Event-ID); one heard before is not given out again.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from choir_common.errors import DeadlineExceeded, RateLimited, Unavailable
from choir_common.http import sse_read
from choir_common.ids import new_id
from choir_common.wire.activity import Card, Idle, Typing
from choir_common.wire.messages import Accepted, History, OutboundMessage, Pressed
from choirctl.control_api import ControlApi, parse

M = TypeVar("M", bound=BaseModel)
UNREAD_MOST = 1000  # more wait in the stream itself, and in the outbox behind it
RECENT = 500  # outbox ids, of the whole system
SILENCE_S = 40.0  # the stream's keepalive comes every 15 s
FIRST_PAUSE_S = 0.1
MOST_PAUSE_S = 2.0
SAY_WITHIN_S = 30.0


Heard = OutboundMessage | Card | Typing | Idle
"""Something said, or what goes on right now; the latter is gone once it has passed."""
_ACTIVITY: TypeAdapter[Typing | Idle] = TypeAdapter(
    Annotated[Typing | Idle, Field(discriminator="kind")]
)


class Say(BaseModel):
    """A message and the key under which a repetition is recognised."""

    model_config = ConfigDict(frozen=True)

    text: str
    idempotency_key: str
    files: tuple[str, ...] | None = None
    """The refs of files that were put before; none is left out, for a gateway that knows no files."""
    edits: str | None = None
    """The key of the earlier message whose words these replace."""


class PressButton(BaseModel):
    """A button of a message, and the key under which a repetition is recognised."""

    model_config = ConfigDict(frozen=True)

    data: str
    message_id: str
    idempotency_key: str


@dataclass(slots=True)
class Position:
    """How far the stream was heard, and whether it is open now."""

    last_id: int | None = None
    is_open: bool = False


class Conversation:
    """One DM, seen from the user's side; made by `converse`."""

    def __init__(self, api: ControlApi, dm: str) -> None:
        self._api = api
        self._dm = dm
        self._unread: asyncio.Queue[Heard] = asyncio.Queue(UNREAD_MOST)
        self._heard = Position()

    @property
    def is_connected(self) -> bool:
        """Tell whether what is said now would be heard at once."""
        return self._heard.is_open

    async def say(
        self, text: str, files: Sequence[str] = (), *, key: str = "", edits: str | None = None
    ) -> Accepted:
        """Send a message, again under the same key while the outcome is unknown.

        One that `edits` an earlier one's key corrects that. Raises NotFound for an unknown DM or file,
        Unavailable when it was not accepted within 30 s, DeadlineExceeded when a part of Choir hangs.
        """
        body = Say(
            text=text,
            idempotency_key=key or new_id("cli"),
            files=tuple(files) or None,
            edits=edits,
        )
        return await self._post("messages", body, Accepted)

    async def press(self, message: OutboundMessage, data: str) -> Pressed:
        """Press a button of a message; what it decides is durable when this returns. Raises as `say`."""
        body = PressButton(
            data=data, message_id=str(message.outbox_id), idempotency_key=new_id("cli")
        )
        return await self._post("press", body, Pressed)

    async def _post(self, what: str, body: BaseModel, shape: type[M]) -> M:
        deadline = time.monotonic() + SAY_WITHIN_S
        pause = FIRST_PAUSE_S
        while True:
            try:
                path = f"/v1/dms/{self._dm}/{what}"
                return parse(await self._api.send("POST", path, body=body), shape)
            except (Unavailable, RateLimited):
                if time.monotonic() + pause > deadline:
                    raise
            except DeadlineExceeded as error:
                # what hangs is named at once, not after one more wait of the same length
                raise DeadlineExceeded(
                    f"{error.message} Whether this was accepted is not known."
                ) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE_S)

    async def hear(self) -> Heard:
        """Return what is said or goes on next; waits for it."""
        return await self._unread.get()

    async def recent(self) -> tuple[OutboundMessage, ...]:
        """Return what was said last in the DM, oldest first: what may still want a decision."""
        after = max(0, (self._heard.last_id or 0) - RECENT)
        path = f"/v1/dms/{self._dm}/messages"
        params = {"after": str(after), "limit": str(RECENT)}
        said = parse(await self._api.send("GET", path, params=params), History).messages
        return tuple(it for it in said if it.outbox_id <= (self._heard.last_id or 0))

    async def listen(self, opened: asyncio.Event) -> None:
        """Follow the stream for ever; sets `opened` once it is open the first time.

        Raises NotFound for an unknown DM, and what else no repetition would mend.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                async for message in self._stream(opened):
                    pause = FIRST_PAUSE_S
                    await self._take(message)
            except DeadlineExceeded:
                if not opened.is_set():
                    raise
            except (httpx2.HTTPError, Unavailable, RateLimited):
                if not opened.is_set() and pause == MOST_PAUSE_S:
                    raise
            finally:
                self._heard.is_open = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE_S)

    async def _stream(self, opened: asyncio.Event) -> AsyncIterator[Heard]:
        if self._heard.last_id is None:
            self._heard.last_id = await self._newest_id()
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._heard.last_id)}
        timeout = httpx2.Timeout(10.0, read=SILENCE_S)
        path = f"/v1/dms/{self._dm}/events"
        async with contextlib.aclosing(
            await self._api.open_stream(path, headers, timeout)
        ) as answer:
            self._heard.is_open = True
            opened.set()
            async for event in sse_read.read(answer.aiter_bytes()):
                match event.event:
                    case "message" | "edit":
                        yield OutboundMessage.model_validate_json(event.data)
                    case "card":
                        yield Card.model_validate_json(event.data)
                    case "activity":
                        yield _ACTIVITY.validate_json(event.data)
                    case _:
                        pass  # of a Choir newer than this choirctl

    async def _newest_id(self) -> int:
        """Ask where the DM stands: all streams begin after that, so no cut can lose anything."""
        path = f"/v1/dms/{self._dm}/messages"
        answer = await self._api.send("GET", path, params={"after": "0", "limit": "1"})
        return parse(answer, History).last

    async def _take(self, message: Heard) -> None:
        """Give out a message unless it was heard before, and what goes on unless nobody keeps up."""
        if not isinstance(message, OutboundMessage):
            with contextlib.suppress(asyncio.QueueFull):
                self._unread.put_nowait(message)
            return
        if message.outbox_id <= (self._heard.last_id or 0):
            return
        await self._unread.put(message)
        self._heard.last_id = message.outbox_id


@contextlib.asynccontextmanager
async def converse(api: ControlApi, dm: str) -> AsyncIterator[Conversation]:
    """Open a conversation; the block begins when the stream is open.

    Raises (in a group) what `Conversation.listen` raises.
    """
    conversation = Conversation(api, dm)
    opened = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(conversation.listen(opened))
        await opened.wait()
        try:
            yield conversation
        finally:
            listening.cancel()
