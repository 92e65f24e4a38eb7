"""Calls of Meta's Cloud API for one business number, and what its errors mean.

Error codes: https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
"""

from dataclasses import dataclass
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import ChoirError, NotFound, OutcomeUnknown, RateLimited, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError

PUBLIC_API = "https://graph.facebook.com/v25.0"
REQUEST_TIMEOUT_S = 20.0
UPLOAD_TIMEOUT_S = 40.0
MEDIA_HOSTS = (".fbsbx.com", ".facebook.com", ".whatsapp.net")
"""Besides the API's own: the only hosts to which the token is sent for a file."""

WINDOW_CLOSED = 131047
USER_UNREACHABLE = frozenset({131021, 131026})
PAIR_LIMIT, PAIR_PAUSE_S = 131056, 6.0
LIMITS = frozenset({4, 80007, 130429, 131048, 133016})
LIMIT_PAUSE_S = 5.0
TEMPORARY = frozenset({1, 2, 131000, 131016, 131057, 133004})
TOKEN = frozenset({0, 3, 10, 190, *range(200, 300)})
"""The operator can correct the token or its permissions, and messages wait for that."""
ACCOUNT = frozenset({33, 368, 131030, 131031, 131042, 131045, 133010})
"""So it is with the account or the number."""
OPERATOR_PAUSE_S = 15.0
UNKNOWN_OBJECT = 100
UNEXPLAINED = 131000


class _ApiModel(BaseModel):
    """A part of a response; Meta adds fields without notice."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _ErrorText(_ApiModel):
    """Details of an error."""

    details: str = ""


class MetaError(_ApiModel):
    """An error in a response or in a status of a message."""

    code: int
    title: str = ""
    message: str = ""
    error_data: _ErrorText = _ErrorText()

    @property
    def text(self) -> str:
        """Return Meta's explanation with the code."""
        words = self.error_data.details or self.message or self.title or _("no explanation")
        return f"{words} (error {self.code})"


class _ErrorResponse(_ApiModel):
    error: MetaError


class _MessageId(_ApiModel):
    id: str


class _MessageResponse(_ApiModel):
    messages: tuple[_MessageId, ...]


class _UploadResponse(_ApiModel):
    id: str


class MediaAddress(_ApiModel):
    """Where a file can be downloaded for five minutes, with the token."""

    url: str


class CloudApiError(Exception):
    """An error that Meta explains; nothing was shown to the user."""

    def __init__(self, error: MetaError) -> None:
        super().__init__(error.text)
        self.code = error.code
        self.text = error.text

    def interpret(self) -> ChoirError | RefusedError:
        """Return the error for the outbox: whether to try again, or why not."""
        text = _("WhatsApp refuses: {text}").format(text=self.text)
        match self.code:
            case code if code == WINDOW_CLOSED:
                return Unavailable(CLOSED_TEXT, retry_after_s=CLOSED_PAUSE_S)
            case code if code == PAIR_LIMIT:
                return Unavailable(text, retry_after_s=PAIR_PAUSE_S)
            case code if code in LIMITS:
                return Unavailable(text, retry_after_s=LIMIT_PAUSE_S)
            case code if code in TEMPORARY:
                return Unavailable(text, retry_after_s=LIMIT_PAUSE_S)
            case code if code in ACCOUNT:
                return Unavailable(text, retry_after_s=OPERATOR_PAUSE_S)
            case code if code in TOKEN:
                text = _("Meta refuses the access token: {text}").format(text=self.text)
                return Unavailable(text, retry_after_s=OPERATOR_PAUSE_S)
            case code:
                return RefusedError(text, blocks_user=code in USER_UNREACHABLE)


CLOSED_TEXT = _(
    "WhatsApp lets messages through only within 24 hours after the user's last message. This "
    "one waits until the user writes."
)
CLOSED_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Upload:
    """A file for an upload."""

    name: str
    mime: str
    content: IO[bytes]


class CloudApi:
    """The calls of one business number."""

    def __init__(self, client: httpx2.AsyncClient, api: str, phone_number_id: str) -> None:
        """`client` sends the token with each request and follows no redirects."""
        self.client = client
        self._api = api
        self._number = f"{api}/{phone_number_id}"
        self._phone_number_id = phone_number_id
        self.error = "has not reached Meta yet"
        """Why calls fail, for operators; empty after a success."""

    async def send(self, body: JsonObject) -> str:
        """Send a message; return its id.

        Raises CloudApiError, Unavailable if it was certainly not sent, OutcomeUnknown if it may have been.
        """
        answer = await self._request("POST", f"{self._number}/messages", json=_product(body))
        return _parse(_MessageResponse, answer).messages[0].id

    async def report(self, body: JsonObject) -> None:
        """Send a read mark or a typing indicator; raises as `send`."""
        await self._request("POST", f"{self._number}/messages", json=_product(body))

    async def upload(self, file: Upload) -> str:
        """Upload a file; return its media id. Raises CloudApiError, Unavailable."""
        file.content.seek(0)
        try:
            answer = await self._request(
                "POST",
                f"{self._number}/media",
                data={"messaging_product": "whatsapp", "type": file.mime},
                files={"file": (file.name, file.content, file.mime)},
                timeout=UPLOAD_TIMEOUT_S,
            )
        except OutcomeUnknown as error:
            # An upload that nobody refers to has no effect.
            raise Unavailable(error.message) from error
        return _parse(_UploadResponse, answer).id

    async def find_media(self, media_id: str) -> str:
        """Return the address of a user's file. Raises NotFound, RateLimited, Unavailable."""
        if not (media_id.isascii() and media_id.isalnum()):
            raise NotFound(_("WhatsApp has no such file."))
        query = {"phone_number_id": self._phone_number_id}
        try:
            answer = await self._request("GET", f"{self._api}/{media_id}", params=query)
        except CloudApiError as error:
            if error.code == UNKNOWN_OBJECT:
                raise NotFound(_("WhatsApp no longer has this file.")) from error
            if error.code in LIMITS:
                raise RateLimited(error.text, retry_after_s=LIMIT_PAUSE_S) from error
            raise Unavailable(error.text) from error
        address = _parse(MediaAddress, answer).url
        if not self._may_get_token(address):
            raise Unavailable(
                _("Meta named an unknown host for the file; the token is not sent to it.")
            )
        return address

    async def check(self) -> None:
        """Read the number, to find out whether the token fits. Raises as `send`."""
        await self._request("GET", self._number, params={"fields": "id"})

    def _may_get_token(self, address: str) -> bool:
        target, own = urlsplit(address), urlsplit(self._api)
        if (target.scheme, target.netloc) == (own.scheme, own.netloc):
            return True
        host = target.hostname or ""
        return target.scheme == "https" and host.endswith(MEDIA_HOSTS)

    async def _request(self, method: str, url: str, **content: Any) -> httpx2.Response:
        content.setdefault("timeout", REQUEST_TIMEOUT_S)
        try:
            answer = await self.client.request(method, url, **content)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            self.error = f"Meta cannot be reached ({type(error).__name__})."
            raise Unavailable(_("{error} Nothing was sent.").format(error=self.error)) from error
        except httpx2.HTTPError as error:
            self.error = f"The connection to Meta broke ({type(error).__name__})."
            raise OutcomeUnknown(self.error) from error
        if answer.is_success:
            self.error = ""
            return answer
        try:
            refusal = CloudApiError(_ErrorResponse.model_validate_json(answer.content).error)
        except ValidationError:
            self.error = f"Meta answers with status {answer.status_code}."
            raise OutcomeUnknown(self.error) from None
        # Other refusals concern one message, not the number.
        if refusal.code in TOKEN | ACCOUNT | TEMPORARY:
            self.error = f"Meta refuses: {refusal.text}"
        raise refusal


def _product(body: JsonObject) -> JsonObject:
    return {"messaging_product": "whatsapp", **body}


T = TypeVar("T", bound=_ApiModel)


def _parse(model: type[T], answer: httpx2.Response) -> T:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError:
        raise OutcomeUnknown(_("Meta's response has an unknown form.")) from None
