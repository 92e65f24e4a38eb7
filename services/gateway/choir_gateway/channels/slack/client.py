"""Client of Slack's Web API and Socket Mode for one app: slack_sdk, and the interpretation of its errors.

Raises SlackRefusedError, SlackAccessError, Unavailable if certainly nothing happened, OutcomeUnknown if
something may have. Deadlines are in the event loop's time.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import IO, TypeVar

import aiohttp
from pydantic import JsonValue, ValidationError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_gateway.channels.slack.errors import SlackAccessError, SlackRefusedError, explain_refusal
from choir_gateway.channels.slack.payloads import SlackObject, SocketAddress

PUBLIC_API = "https://slack.com/api"
CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
LIMITED_PAUSE_S = 1.0
MAX_ENVELOPE_BYTES = 8 * 1024 * 1024

ResponseT = TypeVar("ResponseT", bound=SlackObject)

# The library formats each request for its log unless its logger's own level is above DEBUG.
_library_log = logging.getLogger("slack_sdk.choir")
_library_log.setLevel(logging.CRITICAL)


class SlackSocket:
    """A WebSocket of Socket Mode."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the texts until the connection ends. Raises Unavailable if it breaks."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                yield message.data
            elif message.type is aiohttp.WSMsgType.ERROR:
                raise Unavailable(_("The WebSocket of Slack broke."))

    async def acknowledge(self, envelope_id: str) -> None:
        """Tell Slack that an envelope has arrived. Raises Unavailable."""
        try:
            await self._socket.send_json({"envelope_id": envelope_id})
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(_("The WebSocket of Slack broke.")) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()


class SlackClient:
    """Client with the two tokens of one app."""

    def __init__(self, api_url: str, *, bot_token: str, app_token: str, heartbeat_s: float) -> None:
        self._bot = _make_web_client(api_url, bot_token)
        self._app = _make_web_client(api_url, app_token)
        self._bot_token = bot_token
        self._heartbeat_s = heartbeat_s
        self._session: aiohttp.ClientSession | None = None

    @property
    def download_headers(self) -> Mapping[str, str]:
        """The headers of a request for a user's file; only for an address of Slack."""
        return {"Authorization": f"Bearer {self._bot_token}"}

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the connections until the block ends."""
        # Deadlines are those of the calls.
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            self._session = self._bot.session = self._app.session = session
            try:
                yield
            finally:
                self._session = None

    async def call(
        self,
        method: str,
        arguments: Mapping[str, JsonValue],
        response: type[ResponseT],
        *,
        deadline: float,
        is_form: bool = False,
    ) -> ResponseT:
        """Call a method with the bot token; `is_form`: it does not accept JSON.

        A rate limit is waited for if it ends before the deadline.
        """
        return await self._call(self._bot, method, arguments, response, deadline, is_form=is_form)

    async def open_socket(self, deadline: float) -> SlackSocket:
        """Connect to Socket Mode with the app-level token."""
        address = await self._call(
            self._app, "apps.connections.open", {}, SocketAddress, deadline, is_form=True
        )
        try:
            async with asyncio.timeout_at(deadline):
                socket = await self._opened_session().ws_connect(
                    address.url,
                    heartbeat=self._heartbeat_s,
                    max_msg_size=MAX_ENVELOPE_BYTES,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            # `from None`: the library's message contains the address with its ticket.
            raise Unavailable(
                _("The WebSocket of Slack cannot be opened ({kind}).").format(
                    kind=type(error).__name__
                )
            ) from None
        return SlackSocket(socket)

    async def upload(self, address: str, content: IO[bytes], *, deadline: float) -> None:
        """Send the bytes of a file to an address that Slack named; nobody sees the file yet."""
        try:
            async with (
                asyncio.timeout_at(deadline),
                self._opened_session().post(address, data=content) as response,
            ):
                await response.read()
                if response.status >= 500:
                    raise Unavailable(
                        _("Slack returned status {status} for the file.").format(
                            status=response.status
                        )
                    )
                if response.status != 200:
                    raise SlackRefusedError(
                        _("Slack refuses the file: status {status}").format(status=response.status)
                    )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(
                _("The upload of the file to Slack failed ({kind}).").format(
                    kind=type(error).__name__
                )
            ) from None

    async def _call(
        self,
        client: AsyncWebClient,
        method: str,
        arguments: Mapping[str, JsonValue],
        response: type[ResponseT],
        deadline: float,
        *,
        is_form: bool,
    ) -> ResponseT:
        self._opened_session()
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    if is_form:
                        answer = await client.api_call(method, data=dict(arguments))
                    else:
                        answer = await client.api_call(method, json=dict(arguments))
                return response.model_validate(answer.data)
            except SlackApiError as error:
                wait_s = _rate_limit_s(error)
                if wait_s is None:
                    raise _interpret(error) from None
                if asyncio.get_running_loop().time() + wait_s > deadline:
                    raise Unavailable(_("Slack limits the rate."), retry_after_s=wait_s) from None
                await asyncio.sleep(wait_s)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                raise Unavailable(_("Slack cannot be reached; nothing was sent.")) from None
            except TimeoutError:
                raise OutcomeUnknown(_("Slack did not respond in time.")) from None
            except (aiohttp.ClientError, OSError) as error:
                name = type(error).__name__
                raise OutcomeUnknown(
                    _("The connection to Slack broke ({name}).").format(name=name)
                ) from None
            except (ValidationError, AttributeError) as error:
                raise OutcomeUnknown(
                    _("Slack's response to {method} is not valid.").format(method=method)
                ) from error

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise Unavailable(_("The connection to Slack is not open yet."))
        return self._session


def _make_web_client(api_url: str, token: str) -> AsyncWebClient:
    # The library's own retries would send a message twice.
    client = AsyncWebClient(token, base_url=api_url, retry_handlers=[], logger=_library_log)
    # As all clients of Choir, it ignores the proxies of the environment.
    client.proxy = None
    return client


def _rate_limit_s(error: SlackApiError) -> float | None:
    """Return the seconds to wait after a rate limit; None for other errors."""
    if _status(error) != 429:
        return None
    try:
        return float(error.response.headers.get("Retry-After", LIMITED_PAUSE_S))
    except ValueError:
        return LIMITED_PAUSE_S


def _interpret(error: SlackApiError) -> Exception:
    status = _status(error)
    if status >= 500:
        return OutcomeUnknown(_("Slack failed with status {status}.").format(status=status))
    body = getattr(error.response, "data", None)
    if not isinstance(body, dict):
        return OutcomeUnknown(_("Slack's response is not valid."))
    return explain_refusal(body)


def _status(error: SlackApiError) -> int:
    # For JSON that cannot be parsed, the response is aiohttp's.
    response = error.response
    status = getattr(response, "status_code", None) or getattr(response, "status", None)
    return int(status or 0)


def describe_error(error: Exception) -> str:
    """Return the reason why no messages arrive, as a text for operators."""
    match error:
        case SlackAccessError() | Unavailable():
            return error.message
        case SlackRefusedError():
            return error.text
        case _:
            return f"The connection to Slack failed ({type(error).__name__})."
