"""The vocabulary of a space: words that may be meant by a misspelt one.

The table `words` is kept by triggers (migration `0006_words`): it contains the words of all documents of both
stores, and no others.
"""

from collections.abc import Mapping, Sequence

from choir_common.postgres.pool import Connection
from choir_memory.search.scope_store import SearchScope

MAX_CANDIDATES = 500
"""Words compared with one misspelt word; a vocabulary of 50,000 words has fewer for most."""

# One edit in a word of n letters leaves its first or last (n - 1) / 2 letters as they are. The range of the
# first letter is read from the index. A word that is in the vocabulary is its own candidate.
_CANDIDATES = """
SELECT t.term, ARRAY(
    SELECT w.word::text FROM {schema}.words w
    WHERE w.word >= left(t.term, 1) AND w.word < chr(ascii(t.term) + 1)
      AND length(w.word) BETWEEN length(t.term) - 1 AND length(t.term) + 1
      AND (left(w.word, (length(t.term) - 1) / 2) = left(t.term, (length(t.term) - 1) / 2)
           OR right(w.word, (length(t.term) - 1) / 2) = right(t.term, (length(t.term) - 1) / 2))
    ORDER BY w.word <> t.term, w.word LIMIT $2
) AS words
FROM unnest($1::text[]) AS t (term)
"""


async def read_candidate_words(
    connection: Connection, scope: SearchScope, terms: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Return the words of the space that look similar to each term, including the term if it is one."""
    sql = scope.sql(_CANDIDATES, 3)
    rows = await connection.fetch(sql, list(terms), MAX_CANDIDATES)
    return {row["term"]: row["words"] for row in rows}
