"""Source of a request: the edge lane, a core job, a compaction or a session summary. Pure.

The source is in the first line of the first message, where the agent's instructions begin:

| lane | the first line contains (ignoring case) |
|---|---|
| compaction | `fold` or `memory_delta`: "Fold the following events into ..." |
| summary | `sum up` or `summary`, and then `session`: "Sum up the session ..." |
| core | `core job` or `core lane`: "You are a core job of ..." |
| edge | `edge lane`: "You are the edge lane of ..." |

The first match counts, since a compaction may name the lane it is for. An edge lane that has something to
report, instead of a user's message to answer, is `report` (see `turn`).
"""

import re
from typing import Literal

Lane = Literal["edge", "core", "report", "compaction", "summary"]

_MARKS: tuple[tuple[Lane, re.Pattern[str]], ...] = (
    ("compaction", re.compile(r"\bfold\b|memory_delta", re.IGNORECASE)),
    ("summary", re.compile(r"\b(sum up|summar\w+)\b.*\bsession\b", re.IGNORECASE)),
    ("core", re.compile(r"\bcore (job|lane)\b", re.IGNORECASE)),
    ("edge", re.compile(r"\bedge lane\b", re.IGNORECASE)),
)


def lane_of(first_message: str) -> Lane | None:
    """Return the source by the first line of a request's first message, or None if it is unknown."""
    line = first_message.strip().partition("\n")[0]
    return next((lane for lane, mark in _MARKS if mark.search(line)), None)
