"""Collapse hits that say the same, word for word, into the newest of them: pure. Called by `recall`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from choir_memory.search.fuse import Fused
from choir_memory.search.read_store import Stored


@dataclass(frozen=True, slots=True)
class Distinct:
    """A hit, and how many documents say the same."""

    fused: Fused
    stored: Stored
    times: int


def normalised(text: str) -> str:
    """Return a text without what does not change what it says: case and white space."""
    return " ".join(text.split()).casefold()


def collapse(fused: Iterable[Fused], stored: Mapping[UUID, Stored]) -> list[Distinct]:
    """Return one hit for each text of a speaker, best first; a hit whose document is gone is left out.

    The newest document stands for all, at the place and with the score of the best of them.
    """
    groups: dict[tuple[str, str | None], list[tuple[Fused, Stored]]] = {}
    for one in fused:
        document = stored.get(one.document_id)
        if document is not None:
            same = (normalised(document.text), document.speaker)
            groups.setdefault(same, []).append((one, document))
    return [_newest(group) for group in groups.values()]


def _newest(group: list[tuple[Fused, Stored]]) -> Distinct:
    fused, stored = max(
        group, key=lambda one: (one[1].happened_at or one[1].updated_at, one[1].document_id)
    )
    return Distinct(replace(fused, score=group[0][0].score), stored, len(group))
