"""Split a long text into passages that an embedding model reads completely.

Called by the embedding queue: each passage gets its own vector, and the similarity of a document is that
of its nearest passage.
"""

import re

PASSAGE_CHARS = 900
"""Maximum characters: about 200 tokens of English; the offline model reads 256 tokens and drops the rest."""
DENSE_PASSAGE_CHARS = 220
"""Maximum characters for scripts in which each character is a token."""
MAX_PASSAGES = 128
"""Enough for the longest text that the wire allows, 100,000 characters."""

_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？\n])\s*")


def passages(text: str) -> list[str]:
    """Return `text` in passages that end at a sentence where possible; at least one."""
    size = PASSAGE_CHARS if _is_spaced(text) else DENSE_PASSAGE_CHARS
    pieces: list[str] = []
    held = ""
    for sentence in filter(None, _BREAK.split(text.strip())):
        if held and len(held) + 1 + len(sentence) > size:
            pieces.append(held)
            held = ""
        held = f"{held} {sentence}" if held else sentence
        while len(held) > size:
            cut = held.rfind(" ", size // 2, size)
            cut = cut if cut > 0 else size
            pieces.append(held[:cut])
            held = held[cut:].lstrip()
    if held or not pieces:
        pieces.append(held)
    return pieces[:MAX_PASSAGES]


def _is_spaced(text: str) -> bool:
    return sum(char > "\u0e00" for char in text) * 4 < len(text)
