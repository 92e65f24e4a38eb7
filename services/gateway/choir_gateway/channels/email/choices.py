"""Questions by mail: buttons become numbered choices, and a reply with a number chooses. Pure."""

import re
from collections.abc import Sequence
from enum import Enum

from choir_common.i18n import Message, _, join
from choir_common.wire.attachments import Button
from choir_common.wire.button_labels import APPROVE, ONCE, REJECT, in_all_languages

# What people write instead of the labels of an approval.
_YES = frozenset(it.casefold() for label in (APPROVE, ONCE) for it in in_all_languages(label))
_NO = frozenset(it.casefold() for it in in_all_languages(REJECT))
SYNONYMS: dict[str, frozenset[str]] = {"yes": _YES, "ja": _YES, "no": _NO, "nein": _NO}
_NUMBER = re.compile(r"[(#]?(\d{1,2})[.)]?")


BY_NUMBER = _("To choose, reply to this mail with the number alone.")
BY_WORD = _("To choose, reply to this mail with the number alone, or yes or no.")


class UnclearChoice(Enum):
    """Why a reply that begins like a choice chooses nothing."""

    MORE_TEXT = _(
        "Nothing was decided. It contains more than the choice. Reply with the number alone, without a "
        "signature."
    )
    NO_SUCH_CHOICE = _(
        "Nothing was decided. There is no such choice. Reply with one of the numbers."
    )


def list_choices(buttons: Sequence[Button]) -> Message:
    """Return the choices with their numbers, and how to choose."""
    lines = [f"{number}  {button.label}" for number, button in enumerate(buttons, start=1)]
    labels = {button.label.casefold() for button in buttons}
    is_decision = all(labels.intersection(meanings) for meanings in (_YES, _NO))
    return join("\n", [*lines, BY_WORD if is_decision else BY_NUMBER])


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
