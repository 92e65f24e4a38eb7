"""Questions by mail: buttons become numbered choices, and a reply with a number chooses. Pure."""

import re
from collections.abc import Sequence
from enum import Enum

from choir_common.wire.attachments import Button

# What people write instead of the labels of an approval.
SYNONYMS: dict[str, tuple[str, ...]] = {"yes": ("approve", "once"), "no": ("reject",)}
_NUMBER = re.compile(r"[(#]?(\d{1,2})[.)]?")


class UnclearChoice(Enum):
    """Why a reply that begins like a choice chooses nothing."""

    MORE_TEXT = (
        "It contains more than the choice. Reply with the number alone, without a signature."
    )
    NO_SUCH_CHOICE = "There is no such choice. Reply with one of the numbers."


def list_choices(buttons: Sequence[Button]) -> str:
    """Return the choices with their numbers, and how to choose."""
    lines = [f"{number}  {button.label}" for number, button in enumerate(buttons, start=1)]
    labels = {button.label.casefold() for button in buttons}
    words = [word for word, meanings in SYNONYMS.items() if labels.intersection(meanings)]
    also = f", or {' or '.join(words)}" if len(words) == len(SYNONYMS) else ""
    return "\n".join([*lines, f"To choose, reply to this mail with the number alone{also}."])


def find_choice(text: str, buttons: Sequence[Button]) -> Button | UnclearChoice | None:
    """Return the button that a reply chooses; None if it is an ordinary message.

    `text` is what the user wrote, without quotations. A choice is the whole text: `1, but not today` must not
    approve.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return None
    word = lines[0].rstrip(".!").strip().casefold()
    number = _NUMBER.fullmatch(lines[0])
    button = _by_number(int(number[1]), buttons) if number else _by_word(word, buttons)
    if button is None and number is None and word not in SYNONYMS:
        return None
    if len(lines) > 1:
        return UnclearChoice.MORE_TEXT
    return button or UnclearChoice.NO_SUCH_CHOICE


def looks_like_choice(text: str) -> bool:
    """Return whether a reply would choose, if the question still existed."""
    line = text.strip().rstrip(".!").casefold()
    return line in SYNONYMS or _NUMBER.fullmatch(text.strip()) is not None


def _by_number(number: int, buttons: Sequence[Button]) -> Button | None:
    return buttons[number - 1] if 1 <= number <= len(buttons) else None


def _by_word(word: str, buttons: Sequence[Button]) -> Button | None:
    meanings = (word, *SYNONYMS.get(word, ()))
    return next((button for button in buttons if button.label.casefold() in meanings), None)
