"""Token estimates before a call, from bytes and from the count of the lane's last prompt.

See docs/decisions/0013 for the rules of counting.
"""

from collections.abc import Sequence
from typing import Protocol

from choir_models.pictures import count_pages, count_pictures

PICTURE_SIZE = 3_200
"""Bytes that a picture counts as: about 1,600 tokens, the most that providers charge for one of its size."""
PDF_PAGE_SIZE = 5_000
"""Bytes that a page of a PDF counts as: about 2,500 tokens, its text and its picture."""
BYTES_PER_TOKEN = 2
"""A lower bound: in common tokenizers text, code and JSON have more bytes per token; only base64 and hex
have fewer."""


class SizedPrompt(Protocol):
    """The parts of a prompt that have a size."""

    @property
    def messages(self) -> tuple[bytes, ...]: ...

    @property
    def tools(self) -> bytes: ...


def prompt_size(prompt: SizedPrompt) -> int:
    """Return the size of a prompt on the wire, in bytes; pictures and PDFs count as many as their tokens."""
    files = file_size(prompt.messages)
    return sum(map(len, prompt.messages)) + len(prompt.messages) + len(prompt.tools) + files


def file_size(messages: Sequence[bytes]) -> int:
    """Return the bytes that the pictures and PDFs in messages count as."""
    return PICTURE_SIZE * count_pictures(messages) + PDF_PAGE_SIZE * count_pages(messages)


class TokenEstimator:
    """The provider's token count of each lane's last prompt."""

    def __init__(self) -> None:
        self._prompt_sizes: dict[str, int] = {}
        self._token_counts: dict[str, tuple[int, int]] = {}
        self._tokenized_sizes: dict[str, int] = {}

    def record_prompt_size(self, lane: str, size: int) -> None:
        """Record the size of a prompt that is about to be sent."""
        self._prompt_sizes[lane] = size

    def record_token_count(self, lane: str, tokens: int) -> None:
        """Record the provider's count for that prompt; zero means that it does not count, and is
        ignored."""
        size = self._prompt_sizes.get(lane, 0)
        if size and tokens:
            self._token_counts[lane] = (size, tokens)

    def forget(self, lane: str) -> None:
        """Remove a lane that has ended."""
        self._prompt_sizes.pop(lane, None)
        self._token_counts.pop(lane, None)
        self._tokenized_sizes.pop(lane, None)

    def needs_count(self, lane: str, size: int) -> bool:
        """Return whether an uncounted prompt exceeds the last tokenizer count by half."""
        return size * 2 > self._tokenized_sizes.get(lane, 0) * 3

    def record_tokenized(self, lane: str, size: int) -> None:
        """Record that a tokenizer has counted a prompt of `size` bytes."""
        self._tokenized_sizes[lane] = size

    def tokens(self, lane: str, size: int) -> int:
        """Return an upper estimate of the tokens of a prompt with `size` bytes in this lane."""
        last_size, last_tokens = self._token_counts.get(lane, (0, 0))
        if size >= last_size:
            return last_tokens + -(-(size - last_size) // BYTES_PER_TOKEN)
        return -(-last_tokens * size // last_size)

    def size_of(self, lane: str, tokens: int) -> int:
        """Return the bytes that fill `tokens` in this lane, by the ratio of its last prompt."""
        last_size, last_tokens = self._token_counts.get(lane, (BYTES_PER_TOKEN, 1))
        return tokens * last_size // last_tokens
