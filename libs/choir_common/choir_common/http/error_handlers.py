"""Exception handlers of every service: the problem documents of errors that no route translated.

The clients of Postgres, NATS and HTTP translate the errors they know; lost connections that they miss, while
the other side or this process is shutting down, are recognized here.
"""

import httpx2
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from choir_common.errors import ChoirError, InvalidRequest, NotFound, OutcomeUnknown
from choir_common.http.responses import problem_response
from choir_common.i18n import _

log = structlog.get_logger("choir.http")

CLOSED_TRANSPORT = ("the handler is closed", "the client has been closed")
"""Texts of the plain RuntimeErrors that uvloop and the HTTP client raise for a closed transport."""


async def render_http_error(request: Request, error: Exception) -> JSONResponse:
    """Render an error of the framework, such as an unknown route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == NotFound.status:
        return problem_response(
            NotFound(
                _("There is no route {method} {url}.").format(
                    method=request.method, url=request.url.path
                )
            )
        )
    return problem_response(_FrameworkError(status, str(getattr(error, "detail", ""))))


async def render_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    """Log any other error, and render it without its text."""
    log.error("request failed", path=request.url.path, method=request.method, exc_info=error)
    return problem_response(_connection_lost() if is_lost_connection(error) else ChoirError())


def _connection_lost() -> OutcomeUnknown:
    return OutcomeUnknown(
        _(
            "The connection to a part of Choir was lost; it may be restarting. The request may have "
            "been carried out; it is safe to repeat it with the same key."
        ),
        retry_after_s=2.0,
    )


def is_lost_connection(error: BaseException) -> bool:
    """Return whether an error means that the peer went away, so that a retry may succeed."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_lost_connection(member) for member in error.exceptions)
    if isinstance(error, RuntimeError):
        return any(text in str(error) for text in CLOSED_TRANSPORT)
    return isinstance(error, ConnectionError | TimeoutError | EOFError | httpx2.TransportError)


class _FrameworkError(InvalidRequest):
    """The framework's own rejection, such as 405."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or None)
        self.status = status
