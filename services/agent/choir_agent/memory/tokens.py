"""Estimate tokens before a call: from bytes, and from what was counted for the lane's last prompt.

Read by `compaction` (is the window too big?) and by the lanes, which reserve budget before a call. Who
counts, and when: docs/decisions/0013.
"""

from typing import Protocol

BYTES_PER_TOKEN = 2
"""Fewer than text, code or JSON take in any common tokenizer; only base64 and hex digits take less."""


class Measurable(Protocol):
    """A prompt."""

    @property
    def messages(self) -> tuple[bytes, ...]: ...

    @property
    def tools(self) -> bytes: ...


def bytes_of(prompt: Measurable) -> int:
    """Return the bytes a prompt has on the wire."""
    return sum(map(len, prompt.messages)) + len(prompt.messages) + len(prompt.tools)


class TokenMeter:
    """Knows for each lane what the provider counted for its last prompt."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self._tokenized: dict[str, int] = {}

    def asked(self, lane: str, size: int) -> None:
        """Note the bytes of a prompt that is about to be sent."""
        self._asked[lane] = size

    def counted(self, lane: str, tokens: int) -> None:
        """Note what the provider counted for it; some say nothing, which teaches nothing."""
        size = self._asked.get(lane, 0)
        if size and tokens:
            self._counted[lane] = (size, tokens)

    def forget(self, lane: str) -> None:
        """Drop what is known of a lane that has ended."""
        self._asked.pop(lane, None)
        self._counted.pop(lane, None)
        self._tokenized.pop(lane, None)

    def wants_count(self, lane: str, size: int) -> bool:
        """Tell whether a prompt that no provider counts has outgrown what a tokenizer counted last."""
        return size * 2 > self._tokenized.get(lane, 0) * 3

    def tokenized(self, lane: str, size: int) -> None:
        """Note that a tokenizer has counted a prompt of `size` bytes."""
        self._tokenized[lane] = size

    def tokens(self, lane: str, size: int) -> int:
        """Return how many tokens a prompt of `size` bytes has in this lane: rather too many than too few."""
        then, counted = self._counted.get(lane, (0, 0))
        if size >= then:
            return counted + -(-(size - then) // BYTES_PER_TOKEN)
        return -(-counted * size // then)

    def size_of(self, lane: str, tokens: int) -> int:
        """Return how many bytes fill `tokens` in this lane, by what its last prompt had for each."""
        then, counted = self._counted.get(lane, (BYTES_PER_TOKEN, 1))
        return tokens * then // counted
