"""Execution of API calls that send something: deadline, rate limits, and the interpretation of errors."""

import asyncio
from collections.abc import Mapping

import httpx2

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.client import MatrixClient, MatrixError

NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

BAD_LOGIN_TEXT = (
    "The homeserver refuses the bot's access token ({code}). Log in as the bot again, then store the new "
    "token with `choirctl secret set` and run `choirctl secret apply`."
)
WRONG_ADDRESS_TEXT = (
    "There is no Matrix homeserver at the `api_url` of this gateway (status {status}). It is the address "
    "that `/.well-known/matrix/client` of the server names."
)
# The operator can correct these, and the message waits for that.
OPERATOR_CODES = frozenset(
    {"M_USER_LOCKED", "M_USER_SUSPENDED", "M_CONSENT_NOT_GIVEN", "M_RESOURCE_LIMIT_EXCEEDED"}
)


async def call_matrix(
    client: MatrixClient,
    method: str,
    path: str,
    body: JsonObject | None = None,
    *,
    deadline: float,
    query: Mapping[str, str] | None = None,
) -> JsonObject:
    """Make a call, again after a rate limit, and return its JSON.

    Raises RefusedError, Unavailable if certainly nothing was sent, OutcomeUnknown if something may have
    been. `deadline` is in the event loop's time.
    """
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await client.call(method, path, body, query=query)
        except TimeoutError:
            raise OutcomeUnknown(_("The homeserver did not respond in time.")) from None
        except MatrixError as error:
            await wait_or_raise(error, deadline)
        except httpx2.HTTPError as error:
            raise translate_break(error) from error


async def wait_or_raise(error: MatrixError, deadline: float) -> None:
    """Wait as long as a rate limit says; raise the translation of any other error."""
    if error.retry_after_s is None:
        raise translate_error(error) from error
    if asyncio.get_running_loop().time() + error.retry_after_s > deadline:
        raise Unavailable(
            _("The homeserver limits the rate."), retry_after_s=error.retry_after_s
        ) from error
    await asyncio.sleep(error.retry_after_s)


def translate_error(error: MatrixError) -> RefusedError | Unavailable:
    """Return the error for the outbox."""
    if error.status >= 500:
        return OutcomeUnknown(
            _("The homeserver failed with status {status}.").format(status=error.status)
        )
    if is_operators(error):
        return Unavailable(describe_error(error))
    if error.code == "M_TOO_LARGE" or error.status == 413:
        return RefusedError(_("it is larger than the homeserver allows"))
    return RefusedError(
        _("The homeserver refuses: {text}").format(text=error.text), blocks_user=error.status == 403
    )


def translate_break(error: httpx2.HTTPError) -> Unavailable:
    """Return the error for the outbox of a connection that failed."""
    if isinstance(error, NOT_SENT):
        return Unavailable(_("The homeserver cannot be reached; nothing was sent."))
    return OutcomeUnknown(_("The connection to the homeserver broke while sending."))


def is_operators(error: MatrixError) -> bool:
    """Return whether only the operator can correct the cause of an error."""
    if error.code in OPERATOR_CODES or error.status == 401:
        return True
    # Without a code of Matrix it is another server, or a proxy before it.
    return error.status in {404, 405} and error.code in {"", "M_UNRECOGNIZED"}


def describe_error(error: Exception) -> str:
    """Return the reason why no messages arrive, as a text for operators."""
    match error:
        case MatrixError(code="M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN"):
            return BAD_LOGIN_TEXT.format(code=error.code)
        case MatrixError() if is_operators(error) and error.status in {404, 405}:
            return WRONG_ADDRESS_TEXT.format(status=error.status)
        case MatrixError():
            return f"The homeserver returned status {error.status} {error.code}: {error.text}"
        case _:
            return f"The homeserver cannot be reached ({type(error).__name__})."
