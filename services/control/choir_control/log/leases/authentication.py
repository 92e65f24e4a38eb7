"""Authentication of agents: from a session id and a lease token to a `Lease`, or an error.

Only the SHA-256 digest of a token is stored. A lease is cached until `forget`, which must be called
when a change of the session is durable: a new epoch, other bindings, or its end.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from choir_common.errors import Fenced, Unauthorized
from choir_control.log.leases.store import Lease, LeaseStore

TOKEN_BYTES = 32
MAX_ID = 100
MAX_TOKEN = 200


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """A new token: the value is sent only to the agent, and the digest is stored."""

    value: str = field(repr=False)
    digest: bytes = field(repr=False)


def create_lease_token() -> LeaseToken:
    """Return a new random token."""
    value = secrets.token_urlsafe(TOKEN_BYTES)
    return LeaseToken(value, digest_of(value))


def digest_of(value: str) -> bytes:
    """Return the SHA-256 digest of a token."""
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()


def digests_equal(a: bytes | None, b: bytes) -> bool:
    """Compare two digests in constant time."""
    return a is not None and hmac.compare_digest(a, b)


class LeaseAuthenticator:
    """Checker of lease tokens with a cache."""

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self._leases: dict[str, Lease] = {}
        self._changes = 0

    async def authenticate(self, session_id: str, token: str) -> Lease:
        """Return the caller's lease.

        Raises Unauthorized for an unknown token, and Fenced for a token of an earlier epoch or an ended
        session.
        """
        if not _is_well_formed(session_id, MAX_ID) or not _is_well_formed(token, MAX_TOKEN):
            raise Unauthorized("A session id and its lease token are required.")
        digest = digest_of(token)
        lease = self._leases.get(session_id) or await self._look_up(session_id)
        if lease is not None and digests_equal(lease.digest, digest):
            return lease
        # an agent that gets Fenced must exit; Unauthorized means that the caller never had a lease
        if await self._store.was_valid(session_id, digest):
            raise Fenced(
                "This lease token is no longer valid: the session ended or has a newer epoch."
            )
        raise Unauthorized("The lease token is not valid for this session.")

    async def is_current(self, lease: Lease) -> bool:
        """Return whether a lease that was admitted is still valid."""
        now = self._leases.get(lease.session_id) or await self._look_up(lease.session_id)
        return now is not None and now.epoch == lease.epoch

    def forget(self, session_id: str) -> None:
        """Drop the session's cached lease."""
        self._changes += 1
        self._leases.pop(session_id, None)

    async def _look_up(self, session_id: str) -> Lease | None:
        before = self._changes
        lease = await self._store.find(session_id)
        # a row read during a change may be outdated: use it, but do not cache it
        if lease is not None and before == self._changes:
            self._leases[session_id] = lease
        return lease


def _is_well_formed(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text.isascii() and text.isprintable()
