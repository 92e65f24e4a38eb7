"""Client of the gateway's console for one conversation: files, messages, and the stream of events.

The same paths as those of the web page and of choirctl, which reach them through the proxy of `/v1/dms`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx2

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.http.client import await_unless_hung
from choir_common.http.response_parser import ServerSentEvent, parse_events, read_problem
from choir_common.http.responses import KEEPALIVE_S
from choir_common.tracing import trace_headers
from choir_common.wire.activity import DraftDelta
from choir_common.wire.attachments import Attachment
from choir_common.wire.console import ConsoleMessageRequest
from choir_common.wire.messages import InboundAccepted, OutboundMessage
from choir_control.api.openai.chat_request import SentFile
from choir_control.api.operator.console import GatewayClients

TICK_S = 1.0
RETRY_S = 0.3
NEW_CONVERSATION_S = 10.0
"""The gateway learns of a new conversation within this time."""
_STREAM = httpx2.Timeout(5.0, read=2 * KEEPALIVE_S + 10)
_UPLOAD = httpx2.Timeout(60.0, connect=5.0)


@dataclass(frozen=True, slots=True)
class DraftText:
    """The reply that is being written, as far as it goes."""

    text: str


ConversationEvent = OutboundMessage | DraftText | None
"""None: nothing has happened for a second."""


class ConsoleConversation:
    """One conversation at the gateway."""

    def __init__(self, gateway: GatewayClients, dm: str) -> None:
        self._gateway = gateway
        self._path = f"/v1/dms/{quote(dm, safe='')}"

    async def upload(self, file: SentFile) -> str:
        """Upload a file; return its reference for `send`. Raises TooLarge, or Unavailable if nothing fits."""
        content = await self._request(
            self._gateway.files,
            "PUT",
            f"{self._path}/files",
            params={"name": file.name},
            content=file.content,
            headers={"Content-Type": file.mime},
            timeout=_UPLOAD,
        )
        return Attachment.model_validate_json(content).ref

    async def send(self, message: ConsoleMessageRequest) -> InboundAccepted:
        """Store a message; it is durable on return. Raises Conflict for another text under the same key."""
        content = await self._request(
            self._gateway.console,
            "POST",
            f"{self._path}/messages",
            content=message.model_dump_json().encode(),
            headers={"Content-Type": "application/json", **trace_headers()},
        )
        return InboundAccepted.model_validate_json(content)

    async def follow(self, after: int) -> AsyncGenerator[ConversationEvent, None]:
        """Yield the messages after an outbox id, and drafts; reconnect without gaps, without an end."""
        while True:
            async with contextlib.aclosing(_with_ticks(self._read_stream(after))) as events:
                async for event in events:
                    if isinstance(event, OutboundMessage):
                        after = max(after, event.outbox_id)
                    yield event
            await asyncio.sleep(RETRY_S)
            yield None

    async def _read_stream(self, after: int) -> AsyncGenerator[ConversationEvent, None]:
        """Yield the events of one connection, until it breaks."""
        draft = ""
        with contextlib.suppress(httpx2.HTTPError):
            async with self._gateway.console.stream(
                "GET",
                f"{self._path}/events",
                headers={"Last-Event-ID": str(after)},
                timeout=_STREAM,
            ) as answer:
                if answer.is_error:
                    return
                async for event in parse_events(answer.aiter_bytes()):
                    match _parse(event):
                        case OutboundMessage() as message:
                            draft = ""
                            yield message
                        case DraftDelta(offset=offset, text=text):
                            draft = draft[:offset] + text
                            yield DraftText(draft)
                        case None:
                            pass

    async def _request(
        self, client: httpx2.AsyncClient, method: str, path: str, **content: Any
    ) -> bytes:
        """Return the answer to a request; repeat it while the gateway does not know the conversation."""
        deadline = asyncio.get_running_loop().time() + NEW_CONVERSATION_S
        while True:
            try:
                answer = await await_unless_hung(client, client.request(method, path, **content))
            except httpx2.ConnectError as error:
                raise Unavailable(
                    "The gateway is starting; try again.", retry_after_s=1.0
                ) from error
            except httpx2.HTTPError as error:
                raise OutcomeUnknown(retry_after_s=1.0) from error
            if answer.is_success:
                return answer.content
            is_known = answer.status_code != HTTPStatus.NOT_FOUND
            if is_known or asyncio.get_running_loop().time() > deadline:
                raise read_problem(
                    answer.status_code, answer.content, answer.headers.get("retry-after")
                )
            await asyncio.sleep(RETRY_S)


def _parse(event: ServerSentEvent) -> OutboundMessage | DraftDelta | None:
    match event.event:
        case "message":
            return OutboundMessage.model_validate_json(event.data)
        case "delta":
            return DraftDelta.model_validate_json(event.data)
        case _:  # edits of earlier messages, cards and typing
            return None


async def _with_ticks(
    events: AsyncGenerator[ConversationEvent, None],
) -> AsyncGenerator[ConversationEvent, None]:
    """Yield the events, and None for each second without one."""
    waiting: asyncio.Future[ConversationEvent] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            if not (await asyncio.wait((waiting,), timeout=TICK_S))[0]:
                yield None
                continue
            task, waiting = waiting, None
            try:
                event = task.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait((waiting,))
        await events.aclose()
