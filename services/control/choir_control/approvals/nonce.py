"""The secret in the buttons of an approval request, and the data that a pressed button carries."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from choir_common.wire.attachments import Button

NONCE_BYTES = 16

_DATA = re.compile(r"a:([A-Za-z0-9_-]{22}):([yn])")


@dataclass(frozen=True, slots=True)
class ButtonNonce:
    """A random secret that only the user who sees the buttons knows."""

    value: str

    @staticmethod
    def generate() -> "ButtonNonce":
        """Return a new random nonce."""
        return ButtonNonce(secrets.token_urlsafe(NONCE_BYTES))

    @property
    def sha256(self) -> bytes:
        """Return the hash under which the table stores it."""
        return hashlib.sha256(self.value.encode()).digest()

    def buttons(self) -> Sequence[Button]:
        """Return the buttons that carry it."""
        return (
            Button(label="Approve", data=f"a:{self.value}:y"),
            Button(label="Reject", data=f"a:{self.value}:n"),
        )


def parse_button_data(data: str) -> tuple[ButtonNonce, Literal["approved", "rejected"]] | None:
    """Return the nonce and the verdict of a pressed button, or None if it is not an approval button."""
    match = _DATA.fullmatch(data)
    if match is None:
        return None
    return ButtonNonce(match[1]), "approved" if match[2] == "y" else "rejected"
