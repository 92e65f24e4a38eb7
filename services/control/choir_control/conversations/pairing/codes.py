"""Codes of users who wait to be paired. A code tells an admin who it is about; alone it allows nothing."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from choir_common.clock import Clock
from choir_common.errors import RateLimited
from choir_common.i18n import ENGLISH, _, translate
from choir_common.wire.attachments import Button
from choir_control.conversations.people.link_codes import ALPHABET, CODE_LENGTH

LIFETIME = timedelta(hours=1)
"""How long a code is valid, and the least time between two messages to the same stranger."""
MAX_REQUESTS = 20
"""Requests of a gateway in that time, and so its codes and messages to strangers; later ones are dropped."""
MAX_TRIES = 5
TRY_TIME_S = 600.0

_BUTTON = re.compile(r"p:([yn]):([0-9A-Z]{8})")


@dataclass(frozen=True, slots=True)
class WaitingUser:
    """A user who has a code."""

    gateway: str
    user_id: str
    dm: str
    user_name: str
    code: str
    expires_at: datetime


def new_code() -> str:
    """Return a random code of 39 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def format_code(code: str) -> str:
    """Return a code as it is shown, in two groups."""
    return f"{code[:4]}-{code[4:]}"


def find_waiting(users: Iterable[WaitingUser], typed: str) -> WaitingUser | None:
    """Return the user with this code, in any spelling. Every code is compared, in constant time."""
    digest, match = _digest(typed.upper().replace("-", "").strip()), None
    for user in users:
        if hmac.compare_digest(_digest(user.code), digest):
            match = user
    return match


def decision_buttons(code: str, language: str = ENGLISH) -> tuple[Button, Button]:
    """Return the buttons of the notice to an admin."""
    return (
        Button(label=translate(_("Allow"), language), data=f"p:y:{code}"),
        Button(label=translate(_("Refuse"), language), data=f"p:n:{code}"),
    )


@dataclass(frozen=True, slots=True)
class PairingPress:
    """What a button of a notice decides."""

    code: str
    verdict: Literal["allow", "refuse"]


def parse_decision(data: str) -> PairingPress | None:
    """Return the decision in the data of a button; None for buttons of other kinds."""
    match = _BUTTON.fullmatch(data)
    if match is None:
        return None
    return PairingPress(match[2], "allow" if match[1] == "y" else "refuse")


class WrongTries:
    """Count of the wrong codes of each conversation and of operators in the last ten minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: dict[str, list[float]] = {}
        """Times at which a try stops counting, by its author."""

    def check(self, author: str) -> None:
        """Raise RateLimited if there were too many."""
        now = self._clock.monotonic()
        recent = [expires_at for expires_at in self._tries.pop(author, []) if expires_at > now]
        if recent:
            self._tries[author] = recent
        if len(recent) >= MAX_TRIES:
            raise RateLimited(
                _("{max_tries} wrong codes were typed here. Try again in ten minutes.").format(
                    max_tries=MAX_TRIES
                )
            )

    def add(self, author: str) -> None:
        """Count a wrong code."""
        self._tries.setdefault(author, []).append(self._clock.monotonic() + TRY_TIME_S)


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogateescape")).digest()
