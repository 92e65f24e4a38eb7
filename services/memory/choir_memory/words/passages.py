"""Cut a long text into passages an embedding model reads whole.

Called by the embedding queue: each passage gets a vector of its own, and a document is as near to a
query as its nearest passage.
"""

import re

PASSAGE_CHARS = 900
"""Characters: about 200 tokens of English; the offline model reads 256 tokens and drops the rest."""
DENSE_PASSAGE_CHARS = 220
"""Characters for scripts where each character is a token."""
MAX_PASSAGES = 128
"""A text of the largest size the wire takes, 100,000 characters, still fits."""

_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？\n])\s*")


def passages(text: str) -> list[str]:
    """Return `text` in pieces that end at a sentence where there is one; at least one piece."""
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
