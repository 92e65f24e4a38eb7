"""Measurement of the prefix that a prompt shares with an earlier one, which a cache could reuse.

A provider's cache works on blocks of tokens and evicts entries. This counts the bytes of tools and messages
that equal the beginning of one of the newest requests.
"""

from collections import deque

import orjson

# With more concurrent conversations than this, the measured reuse is too low.
REMEMBERED = 32


class PrefixMeter:
    """The newest prompts."""

    def __init__(self) -> None:
        self._newest: deque[bytes] = deque(maxlen=REMEMBERED)

    def measure(self, body: bytes) -> tuple[int, int]:
        """Return the size of a request's prompt and of its reused prefix, in bytes; store the prompt."""
        request = orjson.loads(body)
        # providers put the tools before the messages, regardless of the order in the body
        prompt = orjson.dumps([request.get("tools"), *request["messages"]])
        best = 0
        for earlier in reversed(self._newest):
            if earlier.startswith(prompt[: best + 1]):
                best = _common(earlier, prompt, best)
        self._newest.append(prompt)
        return len(prompt), best


def _common(first: bytes, second: bytes, known_length: int) -> int:
    """Return the length of the common prefix, which is at least `known`, by bisection."""
    low, high = known_length, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
