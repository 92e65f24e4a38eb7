"""Measure how much of a prompt stood at the beginning of an earlier one: what a prefix cache would spare.

Called by `app`. A provider's cache works on tokens, in blocks, and forgets; this counts bytes of tools
and messages that are the same as those of one of the newest requests, from the first byte on.
"""

from collections import deque

import orjson

# more conversations than these at once look less cached than they are
REMEMBERED = 32


class Prefixes:
    """The newest prompts."""

    def __init__(self) -> None:
        self._newest: deque[bytes] = deque(maxlen=REMEMBERED)

    def measure(self, body: bytes) -> tuple[int, int]:
        """Return the bytes of a request's prompt, and how many of them are not new; remember it."""
        request = orjson.loads(body)
        # providers put the tools before the messages, wherever they stand in the body
        prompt = orjson.dumps([request.get("tools"), *request["messages"]])
        best = 0
        for earlier in reversed(self._newest):
            if earlier.startswith(prompt[: best + 1]):
                best = _common(earlier, prompt, best)
        self._newest.append(prompt)
        return len(prompt), best


def _common(one: bytes, other: bytes, known: int) -> int:
    """Return the length of the common beginning, at least `known`, by bisection."""
    low, high = known, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
