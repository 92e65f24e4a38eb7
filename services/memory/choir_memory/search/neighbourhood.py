"""The neighbours of documents in their sessions or collections, and who speaks there: pure.

They depend only on the documents, not on the query. For a space that is kept in memory they are computed
once.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from choir_memory.text.tokens import query_terms

Floats = npt.NDArray[np.float64]
RowNumbers = npt.NDArray[np.int64]
"""Row numbers."""

MIN_QUESTION_SHARE = 0.5
"""Share of a document in questions from which the next document is expected to answer it."""


class Neighbourhood:
    """Rows of the neighbours of each document, and how much of the space is a conversation."""

    def __init__(
        self,
        *,
        sessions: RowNumbers,
        positions: RowNumbers,
        speakers: Sequence[str | None],
        question_shares: Floats,
    ) -> None:
        self._sessions = sessions
        self._positions = positions
        self._speakers = speakers
        self._question_shares = question_shares
        self._rows: dict[int, RowNumbers] = {}

    def rows_at(self, step: int) -> RowNumbers:
        """Return the row of the document `step` positions away for each document; the row count if there
        is none."""
        if step not in self._rows:
            self._rows[step] = self._find_rows(step)
        return self._rows[step]

    def _find_rows(self, step: int) -> RowNumbers:
        sorted_keys, order = self._ordered
        target_keys = np.where(self._sessions >= 0, self._keys + step, -1)
        # if several have this position, the last one
        indexes = np.searchsorted(sorted_keys, target_keys, side="right") - 1
        is_match = (indexes >= 0) & (sorted_keys[indexes] == target_keys)
        return np.where(is_match, order[indexes], len(self._sessions))

    @cached_property
    def speaker_names(self) -> Mapping[str, Sequence[str]]:
        """Return the terms of each speaker's name."""
        return {speaker: query_terms(speaker) for speaker in set(self._speakers) if speaker}

    @cached_property
    def conversation_share(self) -> float:
        """Return the share of documents that are questions or that another speaker follows, doubled and at
        most 1.

        Entries of a diary stand beside each other without being about the same topic.
        """
        speakers = np.array([*self._speakers, None], dtype=object)
        after = self.rows_at(1)
        is_followed = after < len(self._sessions)
        if not is_followed.any():
            return 1.0
        changes = speakers[:-1] != speakers[after]
        asks = self._question_shares > MIN_QUESTION_SHARE
        return min(1.0, 2 * float((changes | asks)[is_followed].mean()))

    @cached_property
    def _keys(self) -> RowNumbers:
        # positions have 32 bits: a step never leads into another session
        return (self._sessions << 34) + self._positions + (1 << 32)

    @cached_property
    def _ordered(self) -> tuple[RowNumbers, RowNumbers]:
        order = np.argsort(self._keys, kind="stable")
        return self._keys[order], order
