"""Merge hits with the same text, and select those to return within the token budget: pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from choir_common.wire.memory_search import Status
from choir_memory.search.document_store import DocumentPosition, StoredDocument
from choir_memory.search.fusion import RankedDocument

CONTEXT_BEFORE = 2
CONTEXT_AFTER = 1
BYTES_PER_TOKEN = 3
"""Prose has nearly five, JSON two and a half (decision 13); a low value keeps the budget safely."""
FRAME_TOKENS = 12
"""Tokens for the date, origin and name around a text."""
MIN_EXCERPT_TOKENS = 40
"""Tokens; a shorter part of a text that does not fit is useless."""


@dataclass(frozen=True, slots=True)
class SelectedHit:
    """A hit to return, with its context."""

    document: StoredDocument
    text: str
    before: tuple[StoredDocument, ...] = ()
    after: tuple[StoredDocument, ...] = ()

    @property
    def tokens(self) -> int:
        """Return the estimated number of tokens of all its texts."""
        context_tokens = sum(
            estimate_tokens(neighbour.text) for neighbour in (*self.before, *self.after)
        )
        return estimate_tokens(self.text) + context_tokens


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text with its frame."""
    return len(text.encode()) // BYTES_PER_TOKEN + FRAME_TOKENS


def context_positions(hits: Iterable[StoredDocument]) -> set[DocumentPosition]:
    """Return the positions around these hits that are not hits themselves."""
    own = {hit.place for hit in hits if hit.place}
    nearby = {
        (session, position + step)
        for session, position in own
        for step in range(-CONTEXT_BEFORE, CONTEXT_AFTER + 1)
    }
    return {place for place in nearby - own if place[1] >= 0}


def fit_to_budget(
    hits: Sequence[StoredDocument],
    context: Mapping[DocumentPosition, StoredDocument],
    budget: int | None,
    *,
    in_order: bool = False,
) -> list[SelectedHit]:
    """Return the hits that fit, best first; a document between two hits is context of the better one only.

    If a hit does not fit with its context, it is returned without; the first hit is truncated rather than
    dropped. A later hit that does not fit is skipped in favour of a smaller one, or ends the list if
    `read_in_order`.
    """
    used: set[DocumentPosition] = set()
    selected: list[SelectedHit] = []
    remaining = budget
    for document in hits:
        hit = _with_context(document, context, used)
        fits = _fitting(hit, remaining, first=not selected)
        if fits is None:
            if in_order:
                break
            continue
        selected.append(fits)
        if context:
            neighbours = (*fits.before, *fits.after)
            used.update(document.place for document in neighbours if document.place)
        if remaining is not None:
            remaining -= fits.tokens
    return selected


def _with_context(
    document: StoredDocument,
    context: Mapping[DocumentPosition, StoredDocument],
    used: set[DocumentPosition],
) -> SelectedHit:
    if not context or document.place is None:
        return SelectedHit(document, document.text)
    session, position = document.place

    def at(steps: Iterable[int]) -> tuple[StoredDocument, ...]:
        places = [(session, position + step) for step in steps]
        return tuple(context[place] for place in places if place in context and place not in used)

    return SelectedHit(
        document, document.text, at(range(-CONTEXT_BEFORE, 0)), at(range(1, CONTEXT_AFTER + 1))
    )


def _fitting(hit: SelectedHit, remaining: int | None, *, first: bool) -> SelectedHit | None:
    if remaining is None or hit.tokens <= remaining:
        return hit
    alone = SelectedHit(hit.document, hit.text)
    if alone.tokens <= remaining:
        return alone
    if not first or remaining < MIN_EXCERPT_TOKENS:
        return None
    max_bytes = (remaining - FRAME_TOKENS) * BYTES_PER_TOKEN
    # "…" has three bytes
    excerpt = hit.text.encode()[: max_bytes - 3].decode(errors="ignore")
    return SelectedHit(hit.document, f"{excerpt}…")


@dataclass(frozen=True, slots=True)
class DistinctHit:
    """A hit, and the number of documents with the same text."""

    ranked_document: RankedDocument
    document: StoredDocument
    times: int


def normalise_text(text: str) -> str:
    """Return the text with case and white space normalised, for comparison."""
    return " ".join(text.split()).casefold()


def merge_duplicates(
    ranking: Iterable[RankedDocument], documents: Mapping[UUID, StoredDocument]
) -> list[DistinctHit]:
    """Return one hit per text, speaker and status, best first; hits with a deleted document are dropped.

    The newest document represents the group, with the rank and score of the best one.
    """
    groups: dict[tuple[str, str | None, Status], list[tuple[RankedDocument, StoredDocument]]] = {}
    for ranked_document in ranking:
        document = documents.get(ranked_document.document_id)
        if document is not None:
            # what is over must not hide what is valid
            same = (normalise_text(document.text), document.speaker, document.status)
            groups.setdefault(same, []).append((ranked_document, document))
    return [_newest(group) for group in groups.values()]


def _newest(group: list[tuple[RankedDocument, StoredDocument]]) -> DistinctHit:
    if len(group) == 1:
        return DistinctHit(*group[0], 1)
    ranked_document, document = max(
        group, key=lambda pair: (pair[1].happened_at or pair[1].updated_at, pair[1].document_id)
    )
    return DistinctHit(replace(ranked_document, score=group[0][0].score), document, len(group))
