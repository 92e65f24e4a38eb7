"""Signatures (HMAC-SHA-256) of the audit log, with keys that are not in the database.

A hash chain alone proves nothing against somebody who can write the database: all hashes can be computed
again. A signature needs a key of control's, from a file. It starts with the id of its key, so that keys can
be replaced and old signatures still be checked. See docs/decisions/0062.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

KEY_BYTES = 32
KEY_ID_BYTES = 4
SIGNATURE_BYTES = KEY_ID_BYTES + 32
NO_SIGNATURE = bytes(SIGNATURE_BYTES)
"""Takes the place of a missing signature in a sequence of signatures."""
SignedKind = Literal["event", "anchor", "certificate"]


class SignatureState(StrEnum):
    """Result of the check of one signature."""

    VALID = "valid"
    WRONG = "wrong"
    MISSING = "missing"
    UNKNOWN_KEY = "unknown key"


@dataclass(frozen=True, slots=True)
class AuditKey:
    """One key; its id is public."""

    secret: bytes

    @property
    def key_id(self) -> bytes:
        """Return the first bytes of the key's SHA-256."""
        return hashlib.sha256(self.secret).digest()[:KEY_ID_BYTES]


class AuditKeyring:
    """The keys of this installation: the newest one signs, all of them check."""

    def __init__(self, keys: Iterable[AuditKey] = ()) -> None:
        self._by_id: dict[bytes, AuditKey] = {}
        self._newest: tuple[bytes, AuditKey] | None = None
        self.replace(keys)

    def replace(self, keys: Iterable[AuditKey]) -> None:
        """Use these keys from now on, oldest first."""
        self._by_id = {key.key_id: key for key in keys}
        self._newest = next(reversed(self._by_id.items()), None)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Return the ids of all keys in hexadecimal, oldest first."""
        return tuple(key_id.hex() for key_id in self._by_id)

    def sign(self, kind: SignedKind, *parts: str) -> bytes:
        """Return the signature of these parts, which contain no NUL.

        Raises LookupError before the keys are loaded.
        """
        if self._newest is None:
            raise LookupError("the audit keys are not loaded")
        key_id, key = self._newest
        return key_id + _digest(key, kind, parts)

    def sign_event(self, session_id: str, rev: int, event_hash: str) -> bytes:
        """Return the signature of one event, by its hash."""
        return self.sign("event", session_id, str(rev), event_hash)

    def check(self, signature: bytes | None, kind: SignedKind, *parts: str) -> SignatureState:
        """Check a signature of these parts."""
        if signature is None or signature == NO_SIGNATURE:
            return SignatureState.MISSING
        key = self._by_id.get(signature[:KEY_ID_BYTES])
        if key is None:
            return SignatureState.UNKNOWN_KEY
        is_valid = hmac.compare_digest(signature[KEY_ID_BYTES:], _digest(key, kind, parts))
        return SignatureState.VALID if is_valid else SignatureState.WRONG

    def check_event(
        self, signature: bytes | None, session_id: str, rev: int, event_hash: str
    ) -> SignatureState:
        """Check the signature of one event."""
        return self.check(signature, "event", session_id, str(rev), event_hash)


def _digest(key: AuditKey, kind: SignedKind, parts: tuple[str, ...]) -> bytes:
    return hmac.digest(key.secret, "\0".join((kind, *parts)).encode(), "sha256")
