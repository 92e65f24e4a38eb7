"""The code by which a bot recognises the person who connects it. Pure, apart from the random source.

Guessing is hopeless: a code has 40 bits, lasts ten minutes, and counts at most 100 wrong tries of all people
together, five of each.
"""

import hmac
import secrets
from collections import Counter
from typing import Literal

# No 0, O, 1, I, L or U, which people confuse.
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
GROUPS, GROUP_LENGTH = 2, 4
MAX_WRONG_OF_PERSON = 5
MAX_WRONG = 100
START = "/START"

Verdict = Literal["right", "wrong", "ignored", "exhausted"]


class PairingCode:
    """A code that is valid once, with the count of wrong tries."""

    def __init__(self) -> None:
        letters = "".join(secrets.choice(ALPHABET) for _ in range(GROUPS * GROUP_LENGTH))
        self.text = "-".join(
            letters[at : at + GROUP_LENGTH] for at in range(0, len(letters), GROUP_LENGTH)
        )
        self._letters = letters.encode()
        self._wrong: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"PairingCode({self.wrong} wrong)"

    @property
    def wrong(self) -> int:
        """Return how many wrong codes were sent."""
        return self._wrong.total()

    def check(self, user_id: str, text: str) -> Verdict:
        """Compare a message with the code.

        `ignored`: it looks like no code, or its sender has tried too often. `exhausted`: this was the last
        wrong try of all people, and the code is not valid any more.
        """
        if self.wrong >= MAX_WRONG:
            return "exhausted"
        letters = _letters_of(text)
        is_code = len(letters) == len(self._letters) and not letters.strip(ALPHABET.encode())
        if not is_code or self._wrong[user_id] >= MAX_WRONG_OF_PERSON:
            return "ignored"
        if hmac.compare_digest(letters, self._letters):
            return "right"
        self._wrong[user_id] += 1
        return "exhausted" if self.wrong >= MAX_WRONG else "wrong"


def _letters_of(text: str) -> bytes:
    """Return the code in a message: typed alone, or sent by the link as `/start CODE`."""
    words = text.upper().removeprefix(START)
    return "".join(letter for letter in words if not letter.isspace() and letter != "-").encode()
