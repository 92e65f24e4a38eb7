"""Cut long texts into messages Telegram takes. Pure; called by sending.py."""

LIMIT = 4096
"""UTF-16 units in one message, as Telegram counts."""


def units(text: str) -> int:
    """Return the length of `text` as Telegram counts it: characters past U+FFFF count twice."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def split_text(text: str, limit: int = LIMIT) -> list[str]:
    """Cut `text` at paragraphs, lines or spaces where possible; joined, the parts lose only blanks."""
    parts: list[str] = []
    rest = text
    while units(rest) > limit:
        head = _fitting(rest, limit)
        cut = _boundary(head)
        part = rest[:cut]
        if part.strip():
            parts.append(part.rstrip("\n"))
        rest = rest[cut:].lstrip("\n")
    if rest.strip():
        parts.append(rest)
    return parts


def _fitting(text: str, limit: int) -> str:
    """Return the longest beginning of `text` that fits."""
    taken = 0
    for place, character in enumerate(text):
        taken += 2 if character > "\uffff" else 1
        if taken > limit:
            return text[:place]
    return text


def _boundary(head: str) -> int:
    # a boundary in the first half would make many small messages
    least = len(head) // 2
    for mark in ("\n\n", "\n", " "):
        place = head.rfind(mark, least)
        if place > 0:
            return place + len(mark)
    return len(head)
