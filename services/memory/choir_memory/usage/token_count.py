"""Count of the tokens that one piece of work has embedded, for callers who are told."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class TokenCounter:
    """Tokens so far."""

    tokens: int = 0


_current: ContextVar[TokenCounter | None] = ContextVar("token_count", default=None)


@contextmanager
def count_tokens() -> Iterator[TokenCounter]:
    """Yield the count of the embedding calls that are made inside the context, in the same task."""
    count = TokenCounter()
    token = _current.set(count)
    try:
        yield count
    finally:
        _current.reset(token)


def add_tokens(tokens: int) -> None:
    """Add the tokens of a call to the count of `count_tokens`, if there is one."""
    count = _current.get()
    if count is not None:
        count.tokens += tokens
