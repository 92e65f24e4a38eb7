"""Merge hits with the same text into the newest of them: pure. Called by `recall`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from choir_memory.search.fuse import Fused
from choir_memory.search.read_store import Stored


@dataclass(frozen=True, slots=True)
class Distinct:
    """A hit, and the number of documents with the same text."""

    fused: Fused
    stored: Stored
    times: int


def normalised(text: str) -> str:
    """Return the text with case and white space normalised, for comparison."""
    return " ".join(text.split()).casefold()


def collapse(fused: Iterable[Fused], stored: Mapping[UUID, Stored]) -> list[Distinct]:
    """Return one hit per text and speaker, best first; hits with a deleted document are dropped.

    The newest document represents the group, with the rank and score of the best one.
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
