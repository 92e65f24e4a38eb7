"""The secret that a request's buttons carry (spec 19.6): made by `store`, read by `press`."""

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
class Nonce:
    """Known to whoever was shown the buttons, and to nobody else."""

    value: str

    @staticmethod
    def fresh() -> "Nonce":
        """Return a new one."""
        return Nonce(secrets.token_urlsafe(NONCE_BYTES))

    @property
    def sha256(self) -> bytes:
        """Return what the table knows it by."""
        return hashlib.sha256(self.value.encode()).digest()

    def buttons(self) -> Sequence[Button]:
        """Return the buttons that carry it."""
        return (
            Button(label="Approve", data=f"a:{self.value}:y"),
            Button(label="Reject", data=f"a:{self.value}:n"),
        )


def read_data(data: str) -> tuple[Nonce, Literal["approved", "rejected"]] | None:
    """Return what a pressed button says, none if it is no button of a request's."""
    found = _DATA.fullmatch(data)
    if found is None:
        return None
    return Nonce(found[1]), "approved" if found[2] == "y" else "rejected"
