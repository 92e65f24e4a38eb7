"""Select the hits to return within the token budget, each with its context. Pure.

Called by `recall` after ranking.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from choir_memory.search.read_store import Place, Stored

BEFORE = 2
AFTER = 1
BYTES_A_TOKEN = 3
"""Prose has nearly five, JSON two and a half (decision 13); a low value keeps the budget safely."""
FRAME_TOKENS = 12
"""Tokens for the date, origin and name around a text."""
SMALLEST_CUT = 40
"""Tokens; a shorter part of a text that does not fit is useless."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit to return, with its context."""

    stored: Stored
    text: str
    before: tuple[Stored, ...] = ()
    after: tuple[Stored, ...] = ()

    @property
    def tokens(self) -> int:
        """Return the estimated number of tokens of all its texts."""
        beside = sum(tokens_of(one.text) for one in (*self.before, *self.after))
        return tokens_of(self.text) + beside


def tokens_of(text: str) -> int:
    """Return the estimated number of tokens of a text with its frame."""
    return len(text.encode()) // BYTES_A_TOKEN + FRAME_TOKENS


def places_beside(hits: Iterable[Stored]) -> set[Place]:
    """Return the positions around these hits that are not hits themselves."""
    taken = {one.place for one in hits if one.place}
    around = {
        (session, position + step)
        for session, position in taken
        for step in range(-BEFORE, AFTER + 1)
    }
    return {place for place in around - taken if place[1] >= 0}


def show(
    hits: Sequence[Stored],
    beside: Mapping[Place, Stored],
    budget: int | None,
    *,
    in_order: bool = False,
) -> list[Shown]:
    """Return the hits that fit, best first; a document between two hits is context of the better one only.

    If a hit does not fit with its context, it is returned without; the first hit is truncated rather than
    dropped. A later hit that does not fit is skipped in favour of a smaller one, or ends the list if
    `in_order`.
    """
    told: set[Place] = set()
    shown: list[Shown] = []
    left = budget
    for stored in hits:
        whole = _with_beside(stored, beside, told)
        fits = _fitting(whole, left, first=not shown)
        if fits is None:
            if in_order:
                break
            continue
        told.update(one.place for one in (*fits.before, *fits.after) if one.place)
        shown.append(fits)
        left = None if left is None else left - fits.tokens
    return shown


def _with_beside(stored: Stored, beside: Mapping[Place, Stored], told: set[Place]) -> Shown:
    if stored.place is None:
        return Shown(stored, stored.text)
    session, position = stored.place

    def at(steps: Iterable[int]) -> tuple[Stored, ...]:
        places = [(session, position + step) for step in steps]
        return tuple(beside[place] for place in places if place in beside and place not in told)

    return Shown(stored, stored.text, at(range(-BEFORE, 0)), at(range(1, AFTER + 1)))


def _fitting(whole: Shown, left: int | None, *, first: bool) -> Shown | None:
    if left is None or whole.tokens <= left:
        return whole
    alone = Shown(whole.stored, whole.text)
    if alone.tokens <= left:
        return alone
    if not first or left < SMALLEST_CUT:
        return None
    room = (left - FRAME_TOKENS) * BYTES_A_TOKEN
    # "…" has three bytes
    cut = whole.text.encode()[: room - 3].decode(errors="ignore")
    return Shown(whole.stored, f"{cut}…")
