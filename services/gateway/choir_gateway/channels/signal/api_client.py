"""Calls of signal-cli-rest-api for one account.

API: https://bbernhard.github.io/signal-cli-rest-api/. Raises RefusedError, Unavailable if certainly nothing
was sent, OutcomeUnknown if something may have been. Deadlines are in the event loop's time.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.signal.addresses import is_group, is_number, recipient_of
from choir_gateway.channels.signal.errors import (
    OPERATOR_PAUSE_S,
    SendFailedError,
    interpret,
    read_error,
)
from choir_gateway.channels.signal.files import ATTACHMENT_ID, SignalUpload, make_upload_body

RECEIVING_MODE = "json-rpc"
CALL_TIMEOUT_S = 20.0
CONNECT_TIMEOUT = httpx2.Timeout(None, connect=5.0)
"""The rest of a call is limited by its deadline."""


class ApiModel(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RecipientError(ApiModel):
    """Why a message did not reach one recipient."""

    reason: str = ""


class SendErrors(ApiModel):
    """The recipients that a message did not reach."""

    recipients: tuple[RecipientError, ...] = ()


class SendResult(ApiModel):
    """The result of a message to one recipient or group."""

    timestamp: str
    errors: SendErrors | None = None


class AboutResponse(ApiModel):
    """The version of the server, and how it runs signal-cli."""

    mode: str = ""


class SearchResult(ApiModel):
    """Whether a phone number is registered on Signal."""

    number: str
    registered: bool


# Newer versions return a list with one result, older ones the result.
_RESULTS: TypeAdapter[list[SendResult] | SendResult] = TypeAdapter(list[SendResult] | SendResult)
_SEARCH = TypeAdapter(list[SearchResult])
_NUMBERS = TypeAdapter(list[str])


@dataclass(frozen=True, slots=True)
class OutgoingQuote:
    """The message to which one replies."""

    timestamp: int
    author: str
    """As signal-cli takes it."""
    text: str


@dataclass(frozen=True, slots=True)
class OutgoingText:
    """A message without its file."""

    text: str
    is_styled: bool
    quote: OutgoingQuote | None = None
    edits: int | None = None
    """The time of the message to replace."""


class SignalApi:
    """The calls of one account."""

    def __init__(self, client: httpx2.AsyncClient, number: str) -> None:
        """`client` sends the secret of a proxy with each request, if there is one."""
        self.client = client
        self.number = number
        self._own_path = quote(number, safe="")
        self.error = ""
        """Why calls fail, for operators; empty after a success."""

    @property
    def receive_path(self) -> str:
        """The path of the WebSocket."""
        return f"/v1/receive/{self._own_path}"

    async def check(self) -> None:
        """Check that messages can be received.

        Raises Unavailable. In another mode a request to receive would take messages and lose them.
        """
        about = AboutResponse.model_validate_json((await self._call("GET", "/v1/about")).content)
        if about.mode != RECEIVING_MODE:
            raise Unavailable(
                _(
                    "signal-cli-rest-api runs in the mode {mode!r}; set MODE=json-rpc and start it again."
                ).format(mode=about.mode),
                retry_after_s=OPERATOR_PAUSE_S,
            )
        numbers = _NUMBERS.validate_json((await self._call("GET", "/v1/accounts")).content)
        if self.number not in numbers:
            raise Unavailable(
                _("signal-cli has no account {number}: register or link it there.").format(
                    number=self.number
                ),
                retry_after_s=OPERATOR_PAUSE_S,
            )

    async def send(
        self, address: str, text: OutgoingText, *, deadline: float, file: SignalUpload | None = None
    ) -> int:
        """Send a message; return its time, which is its id."""
        body: JsonObject = {
            "number": self.number,
            "recipients": [recipient_of(address)],
            "message": text.text,
            "text_mode": "styled" if text.is_styled else "normal",
            "notify_self": False,
        }
        if text.quote is not None:
            body["quote_timestamp"] = text.quote.timestamp
            body["quote_author"] = text.quote.author
            body["quote_message"] = text.quote.text
        if text.edits is not None:
            body["edit_timestamp"] = text.edits
        content: dict[str, Any] = {"json": body} if file is None else make_upload_body(body, file)
        try:
            answer = await self._call("POST", "/v2/send", deadline=deadline, **content)
        except SendFailedError:
            await self._check_registration(address)
            raise
        return self._read_result(address, answer)

    async def set_typing(self, address: str, *, is_typing: bool) -> None:
        """Show or hide that the agent prepares a reply."""
        method, body = "PUT" if is_typing else "DELETE", {"recipient": recipient_of(address)}
        await self._call(method, f"/v1/typing-indicator/{self._own_path}", json=body)

    async def react(self, address: str, emoji: str, *, author: str, timestamp: int) -> None:
        """Put an emoji on a message."""
        body = {
            "recipient": recipient_of(address),
            "reaction": emoji,
            "target_author": author,
            "timestamp": timestamp,
        }
        await self._call("POST", f"/v1/reactions/{self._own_path}", json=body)

    async def delete_attachment(self, attachment_id: str) -> None:
        """Delete the copy of a user's file at signal-cli."""
        if ATTACHMENT_ID.fullmatch(attachment_id):
            await self._call("DELETE", f"/v1/attachments/{attachment_id}")

    async def _check_registration(self, address: str) -> None:
        """Raise RefusedError if a phone number is not registered; for an id nobody can tell."""
        if not is_number(address):
            return
        try:
            answer = await self._call(
                "GET", f"/v1/search/{self._own_path}", params={"numbers": address}
            )
            results = _SEARCH.validate_json(answer.content)
        except (Unavailable, RefusedError, ValidationError):
            return
        if any(it.number == address and not it.registered for it in results):
            raise RefusedError(_("this person is not registered on Signal"), blocks_user=True)

    def _read_result(self, address: str, answer: httpx2.Response) -> int:
        try:
            parsed = _RESULTS.validate_json(answer.content)
            result = parsed[0] if isinstance(parsed, list) else parsed
            timestamp = int(result.timestamp)
        except (ValidationError, ValueError, IndexError) as error:
            raise OutcomeUnknown(_("The response of signal-cli-rest-api is not valid.")) from error
        reasons = {it.reason for it in result.errors.recipients} if result.errors else set[str]()
        # In a group some members may be unreachable.
        if not reasons or is_group(address):
            return timestamp
        reason = min(reasons)
        if reason == "UNREGISTERED_FAILURE":
            raise RefusedError(_("this person is not registered on Signal"), blocks_user=True)
        raise Unavailable(
            _("Signal did not take the message ({reason}).").format(reason=reason),
            retry_after_s=OPERATOR_PAUSE_S,
        )

    async def _call(
        self, method: str, path: str, *, deadline: float | None = None, **content: Any
    ) -> httpx2.Response:
        limit = asyncio.get_running_loop().time() + CALL_TIMEOUT_S if deadline is None else deadline
        try:
            async with asyncio.timeout_at(limit):
                answer = await self.client.request(method, path, timeout=CONNECT_TIMEOUT, **content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            self.error = f"signal-cli-rest-api cannot be reached ({type(error).__name__})."
            raise Unavailable(_("{error} Nothing was sent.").format(error=self.error)) from error
        except TimeoutError as error:
            self.error = "signal-cli-rest-api did not respond in time."
            raise OutcomeUnknown(self.error) from error
        except httpx2.HTTPError as error:
            self.error = f"The connection to signal-cli-rest-api broke ({type(error).__name__})."
            raise OutcomeUnknown(self.error) from error
        if answer.is_success:
            self.error = ""
            return answer
        refusal = interpret(answer.status_code, read_error(answer.content), self.number)
        if isinstance(refusal, Unavailable) and not isinstance(refusal, SendFailedError):
            self.error = refusal.message
        raise refusal
