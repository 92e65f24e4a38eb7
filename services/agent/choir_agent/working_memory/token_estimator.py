"""Token estimates before a call, from bytes and from the count of the lane's last prompt.

See docs/decisions/0013 for the rules of counting.
"""

from typing import Protocol

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
    """Return the size of a prompt on the wire, in bytes."""
    return sum(map(len, prompt.messages)) + len(prompt.messages) + len(prompt.tools)


class TokenEstimator:
    """The provider's token count of each lane's last prompt."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self._tokenized: dict[str, int] = {}

    def asked(self, lane: str, size: int) -> None:
        """Record the size of a prompt that is about to be sent."""
        self._asked[lane] = size

    def counted(self, lane: str, tokens: int) -> None:
        """Record the provider's count for that prompt; zero means that it does not count, and is
        ignored."""
        size = self._asked.get(lane, 0)
        if size and tokens:
            self._counted[lane] = (size, tokens)

    def forget(self, lane: str) -> None:
        """Remove a lane that has ended."""
        self._asked.pop(lane, None)
        self._counted.pop(lane, None)
        self._tokenized.pop(lane, None)

    def needs_count(self, lane: str, size: int) -> bool:
        """Return whether an uncounted prompt exceeds the last tokenizer count by half."""
        return size * 2 > self._tokenized.get(lane, 0) * 3

    def record_tokenized(self, lane: str, size: int) -> None:
        """Record that a tokenizer has counted a prompt of `size` bytes."""
        self._tokenized[lane] = size

    def tokens(self, lane: str, size: int) -> int:
        """Return an upper estimate of the tokens of a prompt with `size` bytes in this lane."""
        then, counted = self._counted.get(lane, (0, 0))
        if size >= then:
            return counted + -(-(size - then) // BYTES_PER_TOKEN)
        return -(-counted * size // then)

    def size_of(self, lane: str, tokens: int) -> int:
        """Return the bytes that fill `tokens` in this lane, by the ratio of its last prompt."""
        then, counted = self._counted.get(lane, (BYTES_PER_TOKEN, 1))
        return tokens * then // counted
