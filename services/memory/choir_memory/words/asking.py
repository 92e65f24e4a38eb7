"""How much of a text asks: it repeats the words of an answer and tells nothing.

Called when a document of a session is stored; `search.fuse` damps what only asks.
"""

import re

_SENTENCES = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_ASKS = ("?", "？", "?!", "!?")


def asking_share(text: str) -> float:
    """Return which share of the characters, from 0 to 1, is in sentences that end with a question mark."""
    total = asking = 0
    for found in _SENTENCES.finditer(text):
        sentence = found.group().strip()
        total += len(sentence)
        if sentence.endswith(_ASKS):
            asking += len(sentence)
    return asking / total if total else 0.0
