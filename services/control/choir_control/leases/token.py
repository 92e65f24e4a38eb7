"""Make lease tokens and compare them; only their sha256 is ever stored."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class LeaseToken:
    """A fresh token: the value goes to the agent alone, the digest into the database."""

    value: str = field(repr=False)
    digest: bytes = field(repr=False)


def mint() -> LeaseToken:
    """Return a new random token."""
    value = secrets.token_urlsafe(TOKEN_BYTES)
    return LeaseToken(value, digest_of(value))


def digest_of(value: str) -> bytes:
    """Return the sha256 of a token."""
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()


def same(a: bytes | None, b: bytes) -> bool:
    """Compare two digests in constant time."""
    return a is not None and hmac.compare_digest(a, b)
