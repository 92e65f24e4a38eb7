"""One conversation (DM) from the user's side: send messages, follow what comes, wait for answers.

A stream is resumed after the last message received (Last-Event-ID), and duplicates are dropped, so that no
message is missed or seen twice.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from choir_client import operations
from choir_client._async.connection import SILENCE_S, AsyncConnection
from choir_client.conversation_events import (
    Answer,
    AnswerReader,
    ConversationEvent,
    EventReader,
    SentMessage,
)
from choir_client.failures import parse_response
from choir_client.local_files import DOWNLOAD_TIMEOUT, UPLOAD_TIMEOUT
from choir_client.operation import Operation, ResponseT
from choir_client.operations import RECONNECT_S
from choir_common.backoff import Backoff
from choir_common.errors import DeadlineExceeded, RateLimited, Unavailable
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.wire.attachments import Attachment
from choir_common.wire.console import ConsoleMessageRequest, ConsolePressRequest
from choir_common.wire.messages import (
    ButtonResponse,
    InboundAccepted,
    OutboundHistory,
    OutboundMessage,
)

SEND_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 600.0
FIRST_RETRY_S = 0.1
MAX_RETRY_S = 2.0
_KEY_PREFIX = "cli"


class AsyncConversation:
    """One conversation of a console gateway; every method raises NotFound if there is none of its name."""

    def __init__(self, connection: AsyncConnection, dm: str) -> None:
        self._connection = connection
        self.dm = dm

    async def send(
        self,
        text: str,
        *,
        files: Sequence[str] = (),
        idempotency_key: str | None = None,
        edits: str | None = None,
    ) -> SentMessage:
        """Store a message and return at once; the agent answers it in its own time.

        It is repeated with the same key for 30 s while Choir is unavailable or limits the rate, and stored
        once. `files` are the refs of uploaded files, `edits` is the key of an earlier message that this one
        corrects.
        Raises Unavailable if it was not accepted, OutcomeUnknown if that is not known.
        """
        after = await self.newest_id()
        accepted = await self.post(text, files=files, idempotency_key=idempotency_key, edits=edits)
        return SentMessage(self.dm, accepted.inbox_id, after, accepted)

    async def post(
        self,
        text: str,
        *,
        files: Sequence[str] = (),
        idempotency_key: str | None = None,
        edits: str | None = None,
    ) -> InboundAccepted:
        """Store a message as `send` does, without reading first what its answer will follow."""
        body = ConsoleMessageRequest(
            text=text,
            idempotency_key=idempotency_key or new_id(_KEY_PREFIX),
            files=tuple(files),
            edits=edits,
        )
        return await self._post(operations.SEND_MESSAGE, body)

    async def upload(self, file: Path | str) -> Attachment:
        """Upload a file; a message with its `ref` in `files` delivers it to the agent.

        Raises InvalidRequest if it is no readable regular file, TooLarge or Unavailable if it is refused.
        """
        path = Path(file)
        url = operations.UPLOAD_FILE.url({"dm": self.dm})
        answer = await self._connection.upload_file(
            url, path, params={"name": path.name}, timeout=UPLOAD_TIMEOUT
        )
        return parse_response(answer, Attachment)

    async def download(self, message: OutboundMessage, ref: str) -> AsyncGenerator[bytes]:
        """Yield the content of a message's file, by the `ref` of its attachment. Raises NotFound."""
        names: dict[str, str | int] = {"dm": self.dm, "outbox_id": message.outbox_id, "ref": ref}
        url = operations.DOWNLOAD_FILE.url(names)
        async with aclosing(self._connection.download(url, DOWNLOAD_TIMEOUT)) as pieces:
            async for piece in pieces:
                yield piece

    async def press(self, message: OutboundMessage, data: str) -> ButtonResponse:
        """Press a button of a message; its decision is durable on return. Retried as `send` is."""
        body = ConsolePressRequest(
            data=data, message_id=str(message.outbox_id), idempotency_key=new_id(_KEY_PREFIX)
        )
        return await self._post(operations.PRESS_BUTTON, body)

    async def ask(self, text: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """Send a message and wait for its answer; raises the errors of `send` and `wait`."""
        return await self.wait(await self.send(text), timeout_s=timeout_s)

    async def wait(self, sent: SentMessage, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """Wait for the answer to a message; raises the errors of `stream`."""
        reader = AnswerReader(sent)
        async with aclosing(self._read_answer(reader, sent, timeout_s)) as pieces:
            async for _ in pieces:
                pass
        if reader.answer is None:
            raise DeadlineExceeded(_no_answer(self.dm, timeout_s))
        return reader.answer

    async def stream(
        self, sent: SentMessage, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> AsyncGenerator[str]:
        """Yield the answer to a message in pieces, as it is written.

        Raises AgentFailure if the agent could not answer, DeadlineExceeded up to 15 s after `timeout_s`: the
        message is stored, and `wait` or `stream` can go on, and Unavailable if Choir is away for a minute.
        """
        async with aclosing(self._read_answer(AnswerReader(sent), sent, timeout_s)) as pieces:
            async for piece in pieces:
                yield piece

    async def _read_answer(
        self, reader: AnswerReader, sent: SentMessage, timeout_s: float
    ) -> AsyncGenerator[str]:
        if reader.answer is not None:  # a command
            yield reader.answer.text
            return
        deadline = time.monotonic() + timeout_s
        following = self.follow(sent.after, silence_s=min(max(timeout_s, 1.0), SILENCE_S))
        async with aclosing(following.with_ticks()) as events:
            async for event in events:
                piece = reader.read(event)
                if piece:
                    yield piece
                if reader.is_complete:
                    return
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(_no_answer(self.dm, timeout_s))

    def follow(
        self,
        after: int | None = None,
        *,
        reconnect_s: float = RECONNECT_S,
        silence_s: float = SILENCE_S,
    ) -> "AsyncConversationStream":
        """Return the events of the conversation after an outbox id; None: after the newest message."""
        return AsyncConversationStream(
            self, self._connection, after=after, reconnect_s=reconnect_s, silence_s=silence_s
        )

    async def history(self, after: int = 0, limit: int = 200) -> OutboundHistory:
        """Return up to `limit` messages to the user after an outbox id, oldest first."""
        params = {"after": str(after), "limit": str(limit)}
        return await self._connection.call(operations.LIST_MESSAGES, {"dm": self.dm}, params=params)

    async def newest_id(self) -> int:
        """Return the newest outbox id of the conversation; 0 without any message."""
        return (await self.history(limit=1)).last

    async def _post(
        self,
        operation: Operation[ResponseT],
        body: ConsoleMessageRequest | ConsolePressRequest,
    ) -> ResponseT:
        """Send a request with an idempotency key; only that makes a retry safe."""
        deadline = time.monotonic() + SEND_TIMEOUT_S
        backoff = Backoff(FIRST_RETRY_S, MAX_RETRY_S)
        while True:
            pause_s = backoff.pause_s()
            try:
                return await self._connection.call(operation, {"dm": self.dm}, body=body)
            except (Unavailable, RateLimited) as error:
                pause_s = max(pause_s, error.retry_after_s or 0.0)
                if time.monotonic() + pause_s > deadline:
                    raise
            except DeadlineExceeded as error:
                # report a hanging service at once: a retry would take the whole timeout again
                raise DeadlineExceeded(
                    _("{message} Whether this was accepted is not known.").format(
                        message=error.message
                    )
                ) from error
            await asyncio.sleep(pause_s)


class AsyncConversationStream:
    """The events of a conversation, without gaps or duplicates across cuts of the connection."""

    def __init__(
        self,
        conversation: AsyncConversation,
        connection: AsyncConnection,
        *,
        after: int | None,
        reconnect_s: float,
        silence_s: float,
    ) -> None:
        self._conversation = conversation
        self._connection = connection
        self._reconnect_s = reconnect_s
        self._silence_s = silence_s
        self.last_id = after
        """The last outbox id that was taken; None before the first connection if none was given."""
        self.is_open = False

    async def __aiter__(self) -> AsyncGenerator[ConversationEvent]:
        """Yield the events; raises NotFound, and Unavailable if Choir is away for longer than allowed."""
        async with aclosing(self.with_ticks()) as events:
            async for event in events:
                if event is not None:
                    yield event

    async def with_ticks(self) -> AsyncGenerator[ConversationEvent | None]:
        """Yield the events, and None whenever the stream opens and for each keepalive."""
        backoff = Backoff(FIRST_RETRY_S, MAX_RETRY_S)
        was_open, alive_at = False, time.monotonic()
        while True:
            try:
                async with aclosing(self._read()) as events:
                    async for event in events:
                        was_open, alive_at = True, time.monotonic()
                        if event is not None:
                            backoff.reset()
                        yield event
            except DeadlineExceeded:
                # before the first connection a hanging service is an error; later it is retried
                if not was_open:
                    raise
            except (Unavailable, RateLimited):
                is_over = time.monotonic() - alive_at > self._reconnect_s
                if is_over or (not was_open and backoff.is_at_limit):
                    raise
            finally:
                self.is_open = False
            await asyncio.sleep(backoff.pause_s())

    async def _read(self) -> AsyncGenerator[ConversationEvent | None]:
        """Yield the events of one connection."""
        if self.last_id is None:
            # every stream starts after an id, so that none can skip a message
            self.last_id = await self._conversation.newest_id()
        stream = self._connection.events(
            operations.FOLLOW_MESSAGES,
            {"dm": self._conversation.dm},
            last_id=self.last_id,
            silence_s=self._silence_s,
        )
        reader = EventReader()
        async with aclosing(stream) as items:
            async for item in items:
                self.is_open = True
                event = None if item is None else reader.read(item)
                if not isinstance(event, OutboundMessage):
                    yield event
                elif event.outbox_id > self.last_id:
                    yield event
                    # only after the caller has taken it: if it is cancelled, it must come again
                    self.last_id = event.outbox_id


def _no_answer(dm: str, timeout_s: float) -> str:
    return _(
        "There was no answer in {dm} within {timeout_s:g} s. The message is stored, and "
        "the agent may still answer; wait again, or read the conversation."
    ).format(dm=dm, timeout_s=timeout_s)
