"""Share of questions in a text. A question repeats the words of its answer and contains no information.

Called when a unit of a session is stored; `search.fuse` lowers the score of units that only ask.
"""

import re

_SENTENCES = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_ASKS = ("?", "？", "?!", "!?")


def asking_share(text: str) -> float:
    """Return the share of characters, from 0 to 1, in sentences that end with a question mark."""
    total = asking = 0
    for found in _SENTENCES.finditer(text):
        sentence = found.group().strip()
        total += len(sentence)
        if sentence.endswith(_ASKS):
            asking += len(sentence)
    return asking / total if total else 0.0
