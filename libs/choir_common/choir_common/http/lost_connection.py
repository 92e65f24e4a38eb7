"""Classification of errors as lost connections. Used by `service_app`.

The clients of Postgres, NATS and HTTP translate the errors they know. This handles the ones they miss while
the other side, or this process, is shutting down.
"""

import httpx2

_CLOSED = ("the handler is closed", "the client has been closed")
"""Texts of the plain RuntimeErrors that uvloop and the HTTP client raise for a closed transport."""


def is_lost_connection(error: BaseException) -> bool:
    """Return whether an error means that the peer went away, so that a retry may succeed."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_lost_connection(each) for each in error.exceptions)
    if isinstance(error, RuntimeError):
        return any(words in str(error) for words in _CLOSED)
    return isinstance(error, ConnectionError | TimeoutError | EOFError | httpx2.TransportError)
