"""Authentication of the calling session by the headers of its request.

It happens before a body is read. See docs/design/protocol.md.
"""

from collections.abc import Mapping

from starlette.types import Scope

from choir_common.errors import InvalidRequest, Unauthorized
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import Lease

SESSION_HEADER = b"x-choir-session-id"
REQUEST_HEADER = b"x-choir-request-id"
MAX_REQUEST_ID = 100
_BEARER = "bearer "


def read_headers(scope: Scope) -> dict[bytes, bytes]:
    """Return a request's headers by lower-case name; the first of several equal names counts."""
    return dict(reversed(scope["headers"]))


def read_bearer_token(headers: Mapping[bytes, bytes]) -> str:
    """Return the bearer token of a request; raises Unauthorized without one."""
    header = headers.get(b"authorization", b"").decode("latin-1")
    if header[: len(_BEARER)].lower() != _BEARER or len(header) == len(_BEARER):
        raise Unauthorized("Authorization: Bearer <token> is needed.")
    return header[len(_BEARER) :].strip()


async def authenticate_session(headers: Mapping[bytes, bytes], guard: LeaseAuthenticator) -> Lease:
    """Return the lease of the calling session.

    Raises Unauthorized or Fenced as the guard does, InvalidRequest without a request id.
    """
    session_id = headers.get(SESSION_HEADER, b"").decode("latin-1")
    lease = await guard.authenticate(session_id, read_bearer_token(headers))
    if not 0 < len(headers.get(REQUEST_HEADER, b"")) <= MAX_REQUEST_ID:
        raise InvalidRequest(f"X-Choir-Request-Id with 1 to {MAX_REQUEST_ID} characters is needed.")
    return lease
