"""Choices of a question in a messenger without buttons: numbers, and emojis of the common ones. Pure."""

from dataclasses import dataclass

from choir_common.i18n import ENGLISH, _, translate
from choir_common.wire.attachments import Button
from choir_common.wire.button_labels import APPROVE, ONCE, REJECT, in_all_languages

MAX_NUMBER = 99
YES, NO = "✅", "❌"
EMOJI_BY_LABEL = {
    text: emoji
    for label, emoji in ((APPROVE, YES), (ONCE, YES), (REJECT, NO))
    for text in in_all_languages(label)
}
"""A choice whose label is not here is taken by its number."""
HINT = _("React with the emoji, or answer with the number.")
NUMBER_HINT = _("Answer with the number.")
VARIATION_SELECTOR = "\ufe0f"


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a question, with their numbers."""

    first: int
    buttons: tuple[Button, ...]

    def describe(self, language: str = ENGLISH) -> str:
        """Return the lines below the question."""
        emojis = [EMOJI_BY_LABEL.get(button.label) for button in self.buttons]
        lines = [
            " ".join(filter(None, (f"{number}: {button.label}", emoji)))
            for (number, button), emoji in zip(
                enumerate(self.buttons, self.first), emojis, strict=True
            )
        ]
        hint = HINT if any(emojis) else NUMBER_HINT
        return "\n".join((*lines, translate(hint, language)))

    def by_number(self, number: int) -> Button | None:
        """Return the choice with a number."""
        at = number - self.first
        return self.buttons[at] if 0 <= at < len(self.buttons) else None

    def by_emoji(self, emoji: str) -> Button | None:
        """Return the choice that an emoji means, if it is only one."""
        key = emoji.replace(VARIATION_SELECTOR, "")
        matching = [it for it in self.buttons if key and EMOJI_BY_LABEL.get(it.label) == key]
        return matching[0] if len(matching) == 1 else None


def number_choices(next_number: int, buttons: tuple[Button, ...]) -> Choices:
    """Return the choices with the next numbers; after the highest one they begin again."""
    is_over = next_number + len(buttons) - 1 > MAX_NUMBER
    return Choices(1 if is_over else next_number, buttons)


def parse_number(text: str) -> int | None:
    """Return the number that is the whole of a text; None for any other text."""
    digits = text.strip().removesuffix(".")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 2 else None
