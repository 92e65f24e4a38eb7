"""Numbered choices of messages whose buttons Slack has refused: the user answers with a number.

In memory only, because the data of a choice is its secret; after a restart the commands still work.
"""

from dataclasses import dataclass

from choir_common.wire.attachments import Button


@dataclass(frozen=True, slots=True)
class NumberedChoice:
    """A choice that the user has made by its number."""

    data: str
    message_ts: str


@dataclass(frozen=True, slots=True)
class _Offer:
    message_ts: str
    buttons: tuple[Button, ...]


class NumberedChoices:
    """The newest open choices of each user."""

    def __init__(self) -> None:
        self._offers: dict[str, _Offer] = {}

    def offer(self, user_id: str, message_ts: str, buttons: tuple[Button, ...]) -> None:
        """Let the user choose by a number."""
        if buttons:
            self._offers[user_id] = _Offer(message_ts, buttons)

    def withdraw(self, user_id: str, message_ts: str) -> None:
        """Close the choices of a message."""
        offer = self._offers.get(user_id)
        if offer is not None and offer.message_ts == message_ts:
            del self._offers[user_id]

    def take(self, user_id: str, text: str) -> NumberedChoice | None:
        """Return the choice that a message makes, and close it; None for any other text."""
        offer, number = self._offers.get(user_id), text.strip().rstrip(".")
        if offer is None or not (number.isascii() and number.isdecimal()):
            return None
        if not 1 <= int(number[:3]) <= len(offer.buttons):
            return None
        del self._offers[user_id]
        return NumberedChoice(offer.buttons[int(number[:3]) - 1].data, offer.message_ts)
