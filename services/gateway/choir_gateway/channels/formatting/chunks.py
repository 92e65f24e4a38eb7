"""Splitting of long texts into parts of a limited length. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from choir_gateway.channels.formatting.styled import Styled, mark_spans, plain_text, slice_runs


def utf16_length(text: str) -> int:
    """Return the length of `text` in UTF-16 units: characters above U+FFFF count twice."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def split_text(runs: Styled, limit: int) -> Sequence[Styled]:
    """Split into parts of at most `limit` UTF-16 units, at paragraphs, lines or spaces where possible.

    Only blank characters at cuts are lost. A marked piece (such as a link) that starts in the later
    half of a part moves to the next part as a whole. A longer one (a code block) is closed at the cut
    and opened again.
    """
    text = plain_text(runs)
    # A marked piece of at most half the limit always fits into the next part.
    spans = [
        (start, end)
        for start, end in mark_spans(runs)
        if utf16_length(text[start:end]) <= limit // 2
    ]
    return [slice_runs(runs, start, end) for start, end in _slices(text, limit, spans)]


def _slices(text: str, limit: int, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = start + _fitting(text[start:], limit)
        if end < len(text):
            end = start + _boundary(text[start:end])
            end = _before(end, start, spans)
        part = text[start:end]
        if part.strip():
            yield start, start + len(part.rstrip("\n")) if end < len(text) else end
        start = end + len(text[end:]) - len(text[end:].lstrip("\n"))


def _before(end: int, start: int, spans: Iterable[tuple[int, int]]) -> int:
    """Move a cut that falls into a marked piece to before the outermost such piece."""
    firsts = [first for first, last in spans if start < first < end < last]
    return min(firsts, default=end)


def _fitting(text: str, limit: int) -> int:
    """Return the length of the longest prefix of `text` that fits."""
    length = 0
    for place, character in enumerate(text):
        length += 2 if character > "\uffff" else 1
        if length > limit:
            return place
    return len(text)


def _boundary(head: str) -> int:
    # A cut in the first half would produce many small messages.
    least = len(head) // 2
    for mark in ("\n\n", "\n", " "):
        index = head.rfind(mark, least)
        if index > 0:
            return index + len(mark)
    return len(head)
