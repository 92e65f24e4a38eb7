"""Lease tokens: creation and comparison. Only the SHA-256 digest is stored."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """A new token: the value is sent only to the agent, and the digest is stored."""

    value: str = field(repr=False)
    digest: bytes = field(repr=False)


def mint() -> LeaseToken:
    """Return a new random token."""
    value = secrets.token_urlsafe(TOKEN_BYTES)
    return LeaseToken(value, digest_of(value))


def digest_of(value: str) -> bytes:
    """Return the SHA-256 digest of a token."""
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()


def same(a: bytes | None, b: bytes) -> bool:
    """Compare two digests in constant time."""
    return a is not None and hmac.compare_digest(a, b)
