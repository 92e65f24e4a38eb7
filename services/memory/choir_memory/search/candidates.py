"""The documents to be ranked, as arrays with one entry per document, and the results of an arm: pure.

Numbers are decoded from Postgres' binary arrays with numpy: decoding thousands of values one by one would
cost more than ranking them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from choir_common.postgres.pool import Record
from choir_memory.search.neighbourhood import Floats, Neighbourhood, RowNumbers

NO_POSITION = -(1 << 30)
"""Position of documents without one; parts of a session's summary count up from here."""
TS_RANK_OF_ONE = 0.06079271
"""ts_rank of a term that occurs once; for n occurrences it is multiplied by the sum of 1/i² for i up to
n."""
_SUMS = (1.0, 1.25, 1.361111, 1.423611, 1.463611, 1.491389, 1.511797, 1.527422, 1.539768, 1.549768)
_BETWEEN = np.add(_SUMS[:-1], _SUMS[1:]) / 2
_ARRAY_HEADER = 20
"""Bytes before the first element of a one-dimensional binary array; each element is preceded by its
length."""
SENTENCE_OFFSET = 4.0
"""Added to the similarity of a sentence, so that it is recognised: a second array costs a tenth of the time
in which the database reads a space."""
_PLACE_ON_DISK = [("block", ">u4"), ("line", ">u2")]


@dataclass(frozen=True)
class CandidateTable:
    """The documents to be ranked, one array per property.

    No slots, because of the cached properties.
    """

    ids: Sequence[UUID]
    sessions: RowNumbers
    """Number of the session (or collection) of each document; -1 for none."""
    positions: RowNumbers
    tokens: Floats
    speakers: Sequence[str | None]
    question_shares: Floats
    by_agent: npt.NDArray[np.bool_]
    """Whether the agent wrote the document."""
    happened_at: Sequence[datetime | None]
    cosines: Floats
    """NaN for documents without a vector."""
    counts: Floats
    """Term frequencies, one column per term."""
    eligible: npt.NDArray[np.bool_]
    """Whether the filters match; other documents only contribute as neighbours, and may be shown as
    context."""
    whole_cosines: Floats | None = None
    """The similarities without the vectors of single sentences; None: the same as `cosines`."""
    known_neighbourhood: Neighbourhood | None = None
    """The neighbours, if they were computed for the same documents before."""

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """Return the neighbours of the documents."""
        return self.known_neighbourhood or Neighbourhood(
            sessions=self.sessions,
            positions=self.positions,
            speakers=self.speakers,
            question_shares=self.question_shares,
        )

    @property
    def message_cosines(self) -> Floats:
        """Return the similarity of each document as a whole, to which relevance is compared."""
        return self.cosines if self.whole_cosines is None else self.whole_cosines

    def top_rows(self, rows: RowNumbers, scores: Floats, most: int) -> list[int]:
        """Return up to `most` of the `rows` with the highest scores, best first; ties are
        ordered by id."""
        if len(rows) > most:
            least = np.partition(scores[rows], -most)[-most]
            rows = rows[scores[rows] >= least]
        numbers = rows.tolist()
        ids = [self.ids[row] for row in numbers]
        ranking = sorted(zip((-scores[rows]).tolist(), ids, numbers, strict=True))
        return [row for _, _, row in ranking[:most]]

    def select_rows(self, rows: RowNumbers) -> "CandidateTable":
        """Return only these rows."""
        picked = rows.tolist()
        return CandidateTable(
            [self.ids[at] for at in picked],
            self.sessions[rows],
            self.positions[rows],
            self.tokens[rows],
            [self.speakers[at] for at in picked],
            self.question_shares[rows],
            self.by_agent[rows],
            [self.happened_at[at] for at in picked],
            self.cosines[rows],
            self.counts[rows],
            self.eligible[rows],
            None if self.whole_cosines is None else self.whole_cosines[rows],
        )

    def with_counts(self, counts: Floats) -> "CandidateTable":
        """Return the same documents with other term frequencies."""
        return replace(self, counts=counts)


_NO_PLACES, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0)
NO_CANDIDATES = CandidateTable(
    ids=(),
    sessions=_NO_PLACES,
    positions=_NO_PLACES,
    tokens=_NO_FLOATS,
    speakers=(),
    question_shares=_NO_FLOATS,
    by_agent=np.zeros(0, np.bool_),
    happened_at=(),
    cosines=_NO_FLOATS,
    counts=np.zeros((0, 0)),
    eligible=np.zeros(0, np.bool_),
)


@dataclass(frozen=True, slots=True)
class TermOccurrences:
    """Occurrences of terms in documents: row, term and ts_rank of each pair."""

    rows: RowNumbers
    terms: RowNumbers
    ranks: Floats

    def counts(self, documents: int, terms: int) -> Floats:
        """Return the term frequencies, derived from ts_rank; at most ten."""
        counts = np.zeros((documents, terms))
        counts[self.rows, self.terms] = np.searchsorted(_BETWEEN, self.ranks / TS_RANK_OF_ONE) + 1.0
        return counts


@dataclass(frozen=True, slots=True)
class DocumentPlaces:
    """The positions on disk of the documents of a table, sorted, and the row of each."""

    keys: RowNumbers
    rows: RowNumbers

    def find_rows(self, sent: bytes) -> RowNumbers:
        """Return the rows of the documents at these positions, sent as a binary array."""
        return self.rows[np.searchsorted(self.keys, _places_on_disk(sent))]


NO_OCCURRENCES = TermOccurrences(_NO_PLACES, _NO_PLACES, _NO_FLOATS)


def decode_columns(row: Record, terms: int) -> tuple[CandidateTable, TermOccurrences]:
    """Decode a result row of arrays (see `candidate_columns_store`) into documents and occurrences of
    terms."""
    if not row["ids"]:
        return NO_CANDIDATES, NO_OCCURRENCES
    material, places = decode_documents(row)
    occurrences = decode_occurrences(row, places)
    return material.with_counts(occurrences.counts(len(material.ids), terms)), occurrences


def decode_documents(row: Record) -> tuple[CandidateTable, DocumentPlaces]:
    """Decode the documents of a result row with at least one, without the counts of terms."""
    keys = _places_on_disk(row["places"])
    order = np.argsort(keys, kind="stable")
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    material = _read(row)
    if len(firsts) < len(keys):
        # a document with several vectors has several rows: the most similar one counts
        cosines = np.fmax.reduceat(material.cosines[order], firsts)
        whole_cosines = material.whole_cosines
        if whole_cosines is not None:
            whole_cosines = np.fmax.reduceat(whole_cosines[order], firsts)
        material = replace(
            material.select_rows(order[firsts]), cosines=cosines, whole_cosines=whole_cosines
        )
        keys = keys[order[firsts]]
        order = np.arange(len(keys))
    return material, DocumentPlaces(keys[order], order)


def decode_occurrences(row: Record, places: DocumentPlaces) -> TermOccurrences:
    """Decode the occurrences of terms in the documents at `places`."""
    if row["held_places"] is None:
        return NO_OCCURRENCES
    numbers = _integers(row["held_terms"], ">i4") - 1
    return TermOccurrences(
        places.find_rows(row["held_places"]), numbers, _floats(row["held_ranks"], ">f4")
    )


def decode_booleans(sent: bytes) -> npt.NDArray[np.bool_]:
    """Decode a binary array of booleans."""
    return _integers(sent, "u1") > 0


def _read(row: Record) -> CandidateTable:
    count = len(row["ids"])
    session_ids = _integers(row["sessions"], ">i8")
    _, sessions = np.unique(session_ids, return_inverse=True)
    cosines, whole_cosines = _cosines(row["cosines"], count)
    return CandidateTable(
        row["ids"],
        np.where(session_ids == 0, -1, sessions),
        _integers(row["positions"], ">i4"),
        _floats(row["tokens"], ">i4"),
        row["speakers"] or [None] * count,
        np.zeros(count) if row["asking"] is None else _floats(row["asking"], ">f4"),
        _booleans(row["by_agent"], count, default=False),
        row["happened_at"] or [None] * count,
        cosines,
        np.zeros((count, 0)),
        _booleans(row["eligible"], count, default=True),
        whole_cosines,
    )


def _cosines(sent: bytes | None, count: int) -> tuple[Floats, Floats | None]:
    """Return the similarities, and those without sentences; None if there are no sentences."""
    if sent is None:
        return np.full(count, np.nan), None
    cosines = _floats(sent, ">f8")
    of_sentences = cosines > SENTENCE_OFFSET / 2
    if not of_sentences.any():
        return cosines, None
    whole_cosines = np.where(of_sentences, np.nan, cosines)
    return np.where(of_sentences, cosines - SENTENCE_OFFSET, cosines), whole_cosines


def _booleans(sent: bytes | None, count: int, *, default: bool) -> npt.NDArray[np.bool_]:
    return np.full(count, default) if sent is None else _integers(sent, "u1") > 0


def _elements(sent: bytes, value: str | list[tuple[str, str]]) -> npt.NDArray[np.void]:
    """Return the elements of a binary Postgres array without NULLs, each with its length."""
    return np.frombuffer(
        sent, np.dtype([("length", ">i4"), ("value", value)]), offset=_ARRAY_HEADER
    )


def _integers(sent: bytes, kind: str) -> RowNumbers:
    return _elements(sent, kind)["value"].astype(np.int64)


def _floats(sent: bytes, kind: str) -> Floats:
    return _elements(sent, kind)["value"].astype(np.float64)


def _places_on_disk(sent: bytes) -> RowNumbers:
    places = _elements(sent, _PLACE_ON_DISK)["value"]
    return (places["block"].astype(np.int64) << 16) + places["line"].astype(np.int64)


ARM_LIMIT = 30
"""Documents per arm that are ranked with their neighbours; more if the query has a higher limit.

With 50, 100 and 200 the measured quality of search changed in the third digit only.
"""


class ArmResult(NamedTuple):
    """A document in the list of one arm; `fuse` counts from 1.

    A tuple, because each search creates sixty: a frozen dataclass takes three times as long.

    Its neighbours are the documents of the same `session_id` (or collection) at `chunk_index` ± 1.
    """

    document_id: UUID
    rank: int
    score: float
    session_id: str | None = None
    chunk_index: int | None = None


def parse_arm_results(rows: Iterable[Record]) -> list[ArmResult]:
    """Convert an arm's rows: id, place, score, session_id, chunk_index."""
    return [
        ArmResult(row["id"], row["place"], row["score"], row["session_id"], row["chunk_index"])
        for row in rows
    ]
