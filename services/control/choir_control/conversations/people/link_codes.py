"""Codes that prove in one conversation what was asked for in another. In memory, and only as hashes.

A code has 39 bits, works once, and lasts ten minutes. An identity has five wrong tries in that time, and 50
wrong tries of all identities end all codes.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from choir_common.clock import Clock
from choir_control.configuration.people import Identity

# No 0, O, 1, I, L or U, which people confuse.
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LENGTH = 8
LIFETIME_S = 600.0
MAX_TRIES = 5
MAX_WRONG = 50
MAX_OPEN = 100


@dataclass(frozen=True, slots=True)
class _OpenCode:
    digest: bytes
    person: str
    expires_at: float


class LinkCodes:
    """The open codes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, _OpenCode] = {}
        """By person: a new code replaces the earlier one."""
        self._wrong: list[tuple[Identity, float]] = []
        """Wrong tries, with the time at which they stop counting."""

    def create(self, person: str) -> str:
        """Return a new code of a person; it replaces the earlier one."""
        self._forget_old()
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        self._open.pop(person, None)
        self._open[person] = _OpenCode(_digest(code), person, self._clock.monotonic() + LIFETIME_S)
        while len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return code

    def redeem(self, identity: Identity, text: str) -> str | None:
        """Use a code; return its person, or None for any code that is not valid.

        Unknown, used, expired and guessed codes take the same time and give the same answer. An identity
        that has tried too often gets it also for a valid code, which stays open.
        """
        self._forget_old()
        digest = _digest(text.upper().replace("-", "").strip())
        person = None
        for code in self._open.values():
            if hmac.compare_digest(code.digest, digest):
                person = code.person
        if sum(tried == identity for tried, _ in self._wrong) >= MAX_TRIES:
            return None
        if person is None:
            self._wrong.append((identity, self._clock.monotonic() + LIFETIME_S))
            if len(self._wrong) >= MAX_WRONG:
                self._open.clear()
            return None
        del self._open[person]
        return person

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        self._open = {name: code for name, code in self._open.items() if code.expires_at > now}
        self._wrong = [
            (identity, expires_at) for identity, expires_at in self._wrong if expires_at > now
        ]
        del self._wrong[:-MAX_WRONG]


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).digest()
