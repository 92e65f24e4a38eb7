"""Tell errors of a connection that broke from faults of our own. Used by `service_app`.

The clients of Postgres, NATS and HTTP translate what they know; this is for what escapes them while the other
side, or this process, is ending.
"""

import httpx2

_CLOSED = ("the handler is closed", "the client has been closed")
"""What uvloop and the HTTP client say of a transport that was closed a moment ago: plain RuntimeErrors."""


def is_lost_connection(error: BaseException) -> bool:
    """Tell whether an error means that the other side went away; a repetition may succeed then."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_lost_connection(each) for each in error.exceptions)
    if isinstance(error, RuntimeError):
        return any(words in str(error) for words in _CLOSED)
    return isinstance(error, ConnectionError | TimeoutError | EOFError | httpx2.TransportError)
