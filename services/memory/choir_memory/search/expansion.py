"""Query expansion: related words from a language model, if the query asks for it."""

from typing import Protocol

MAX_EXPANSION_TERMS = 8
"""Terms that a model may add to a query."""
EXPANSION_DEADLINE_S = 2.0
"""Seconds that a search waits for the model, at most half of its own deadline."""


class QueryExpander(Protocol):
    """A source of related words, which texts about a query probably contain."""

    async def expand(self, query: str) -> tuple[str, ...]:
        """Return search terms that are not in the query; raises a ChoirError if there is no model now."""
        ...
