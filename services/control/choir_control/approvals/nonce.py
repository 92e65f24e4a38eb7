"""The secret in the buttons of an approval request, and the data that a pressed button carries."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from choir_common.i18n import ENGLISH, _, translate
from choir_common.wire.attachments import Button
from choir_common.wire.button_labels import APPROVE, ONCE, REJECT
from choir_common.wire.grants import DEFAULT_GRANT_DAYS, GrantScope

NONCE_BYTES = 16

_DATA = re.compile(r"a:([A-Za-z0-9_-]{22}):(?:([yjsan])|p([0-9]{1,4}))")
_SCOPES: dict[str, GrantScope] = {"y": "once", "j": "job", "s": "session", "a": "always"}


@dataclass(frozen=True, slots=True)
class ButtonChoices:
    """What the buttons of a request offer."""

    scopes: tuple[GrantScope, ...]
    pages: int = 0
    """Pages that are shown before the request can be approved."""
    pages_shown: int = 0


@dataclass(frozen=True, slots=True)
class PressedChoice:
    """What a pressed button chooses: a page, or a decision."""

    nonce: "ButtonNonce"
    page: int | None = None
    verdict: Literal["approved", "rejected"] = "rejected"
    scope: GrantScope = "once"


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

    def buttons(self, choices: ButtonChoices, language: str = ENGLISH) -> Sequence[Button]:
        """Return the buttons that carry it; while a page is not shown, none of them approves."""
        if choices.pages_shown < choices.pages:
            page = choices.pages_shown + 1
            next_page = _("Next page ({page} of {pages})").format(page=page, pages=choices.pages)
            label = _("Show all") if page == 1 else next_page
            return (
                self._button(translate(label, language), f"p{page}"),
                self._button(translate(REJECT, language), "n"),
            )
        # In a job the scope `session` is left to the command, so that the buttons fit on a phone.
        labels: dict[GrantScope, str] = {
            "once": APPROVE if choices.scopes == ("once",) else ONCE,
            "job": _("For this job"),
            "session": "" if "job" in choices.scopes else _("For this session"),
            "always": _("Always ({days} days)").format(days=DEFAULT_GRANT_DAYS),
        }
        approving = (
            self._button(translate(labels[scope], language), code)
            for code, scope in _SCOPES.items()
            if scope in choices.scopes and labels[scope]
        )
        return (*approving, self._button(translate(REJECT, language), "n"))

    def _button(self, label: str, code: str) -> Button:
        return Button(label=label, data=f"a:{self.value}:{code}")


def parse_button_data(data: str) -> PressedChoice | None:
    """Return what a pressed button chooses, or None if it is not an approval button."""
    match = _DATA.fullmatch(data)
    if match is None:
        return None
    nonce, code, page = ButtonNonce(match[1]), match[2], match[3]
    if page is not None:
        return PressedChoice(nonce, page=int(page))
    if code == "n":
        return PressedChoice(nonce)
    return PressedChoice(nonce, verdict="approved", scope=_SCOPES[code])
