"""Deterministic embeddings: unit vectors in which texts with common words are close.

Each word is hashed to a few signed positions; there is no model, so other similarity has no effect.
"""

import base64
import hashlib
import math
import re
import struct
from functools import lru_cache

DIMENSIONS = 384
PLACES_PER_WORD = 12
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=20_000)
def _places(word: str) -> tuple[int, ...]:
    digest = hashlib.blake2b(word.encode(), digest_size=4 * PLACES_PER_WORD).digest()
    return struct.unpack(f"<{PLACES_PER_WORD}I", digest)


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the unit vector of `text`."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [text]:
        for position in _places(word):
            vector[(position >> 1) % dimensions] += 1.0 if position & 1 else -1.0
    # All positions may cancel out; a vector of length zero would break cosine distances.
    length = math.sqrt(math.fsum(x * x for x in vector))
    if length == 0.0:
        return [1.0, *vector[1:]]
    return [x / length for x in vector]


def to_base64(vector: list[float]) -> str:
    """Return `vector` in OpenAI's base64 format: little-endian 32-bit floats."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
