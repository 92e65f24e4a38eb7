"""Find out which session calls, from the logical headers every call carries (spec 12.3).

Called by `routes` and by the events door, before a body is read.
"""

from fastapi import Request

from choir_common.errors import BadInput, Unauthorized
from choir_control.leases.guard import LeaseGuard
from choir_control.leases.store import Lease

SESSION_HEADER = "x-choir-session-id"
REQUEST_HEADER = "x-choir-request-id"
MAX_REQUEST_ID = 100
_BEARER = "bearer "


def bearer_of(request: Request) -> str:
    """Return the bearer token of a request; raises Unauthorized without one."""
    header = request.headers.get("authorization", "")
    if header[: len(_BEARER)].lower() != _BEARER or len(header) == len(_BEARER):
        raise Unauthorized("Authorization: Bearer <token> is needed.")
    return header[len(_BEARER) :].strip()


async def caller_of(request: Request, guard: LeaseGuard) -> Lease:
    """Return the lease of the session that calls.

    Raises Unauthorized or Fenced as the guard does, BadInput without a request id.
    """
    lease = await guard.admit(request.headers.get(SESSION_HEADER, ""), bearer_of(request))
    request_id = request.headers.get(REQUEST_HEADER, "")
    if not 0 < len(request_id) <= MAX_REQUEST_ID:
        raise BadInput(f"X-Choir-Request-Id with 1 to {MAX_REQUEST_ID} characters is needed.")
    return lease
