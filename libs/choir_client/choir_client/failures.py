"""Errors of requests: every failure becomes an error of `choir_common.errors`, with a message for people.

Pure apart from the state of the Unix socket; the sync and the async connection use it.
"""

import contextlib
from collections.abc import Iterator

import httpx2
from pydantic import BaseModel, ValidationError

from choir_client.operation import Nothing, ResponseT
from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    InvalidRequest,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)
from choir_common.http.response_parser import read_problem
from choir_common.i18n import _
from choir_common.target import Target

PROXY_UNAVAILABLE = (502, 503, 504)  # a reverse proxy returns these without a problem document


class AgentFailure(ChoirError):
    """The agent could not answer; the message says why."""

    code = "agent_failed"


def raise_for_status(place: Target, response: httpx2.Response) -> None:
    """Raise the error that an error response contains; do nothing for any other. The body must be read."""
    if not response.is_error:
        return
    error = read_problem(
        response.status_code, response.content, response.headers.get("retry-after")
    )
    if isinstance(error, Unauthorized):
        raise Unauthorized(
            _(
                "{display_address} refuses the operator token: {message} Set CHOIR_TOKEN to the "
                "value of `operator-token` in the secrets.json of that Choir."
            ).format(display_address=place.display_address, message=error.message)
        )
    # a proxy's error page has no problem document, so `read_problem` returns a plain ChoirError
    if type(error) is ChoirError and response.status_code in PROXY_UNAVAILABLE:
        raise Unavailable(
            _("{display_address} returned HTTP {status_code}: a part of it is down.").format(
                display_address=place.display_address, status_code=response.status_code
            )
        )
    raise error


@contextlib.contextmanager
def convert_transport_errors(place: Target) -> Iterator[None]:
    """Convert transport errors of httpx2 into errors with a message for the user."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise Unavailable(
            _(
                "Nothing answers at {display_address}: {error}. Start Choir with `choirctl up`, "
                "or see `choirctl doctor`."
            ).format(display_address=place.display_address, error=error)
        ) from error
    except httpx2.TimeoutException as error:
        raise DeadlineExceeded(
            _(
                "{display_address} is there, but did not answer in time: choird is stuck or very "
                "busy. One that hangs is replaced within a minute. See `choirctl logs choird` "
                "and `choirctl doctor`."
            ).format(display_address=place.display_address)
        ) from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise InvalidRequest(
            _("`{display_address}` is no address of a Choir: {error}.").format(
                display_address=place.display_address, error=error
            )
        ) from error
    except httpx2.HTTPError as error:
        raise OutcomeUnknown(
            _(
                "The connection to {display_address} broke ({error}). See `choirctl status` "
                "before you try again."
            ).format(display_address=place.display_address, error=error or type(error).__name__)
        ) from error


def parse_response(response: httpx2.Response, model: type[ResponseT]) -> ResponseT:
    """Parse a response. Raises ChoirError if this version of the client does not know its form."""
    if model is Nothing:
        return model()
    return parse_json(response.content, model, str(response.request.url))


def parse_json(text: str | bytes, model: type[ResponseT], source: str) -> ResponseT:
    """Parse JSON that came from `source`. Raises ChoirError if this version does not know its form."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise ChoirError(
            _(
                "{source} returned a response that this version of the client cannot read "
                "({error_count} fields do not match {name__}). Compare the versions with "
                "`choirctl version` and `choirctl status`."
            ).format(source=source, error_count=error.error_count(), name__=model.__name__)
        ) from error


def json_body(body: BaseModel | None) -> tuple[str | None, dict[str, str]]:
    """Return the content and the headers of a request; None is omitted, so that defaults apply."""
    if body is None:
        return None, {}
    return body.model_dump_json(exclude_none=True), {"Content-Type": "application/json"}
