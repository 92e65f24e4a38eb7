"""Decide whether two error messages describe the same failure: pure.

A message is a template with names in it: files, modules, hosts, quoted strings. Two messages with the
same template and different names are different failures, and the fix of one does not apply to the other.
"""

import re
from dataclasses import dataclass

from choir_memory.text.tokens import query_terms

MIN_WORD_SIMILARITY = 0.3
"""Minimum Jaccard similarity of the words, without names and numbers, for the same template."""
MIN_NAME_SIMILARITY = 0.5
"""Minimum Jaccard similarity of the names; unrelated tracebacks share some."""
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?([^\s/:'\"`<>]+)[^\s'\"`<>]*", re.IGNORECASE
)
_QUOTED = re.compile(r"(?<!\w)['\"`‘“«]([^'\"`’”»\n]{1,200})['\"`’”»](?!\w)")
_NUMBER = re.compile(r"(?<![\w.-])(?:\d+|0x[0-9a-f]+)(?![\w.-]*\w)", re.IGNORECASE)
# a path, a file or host name, or an identifier with letters and digits
_NAME = re.compile(
    r"((?:[\w~.-]*/[\w./@+~-]+)|\w[\w-]*(?:[.@:]+\w[\w-]*)+|(?=\w*\d)(?=\w*[^\W\d_])\w+)"
)


@dataclass(frozen=True, slots=True)
class FailureSignature:
    """The parts of an error message."""

    words: frozenset[str]
    """Terms of the template."""
    names: frozenset[str]
    """Files, modules, hosts, and quoted strings."""


def parse_failure(message: str) -> FailureSignature:
    """Split a message into template words and names."""
    names: list[str] = []

    def take(match: re.Match[str]) -> str:
        names.append(match[1])
        return " "

    rest = _NUMBER.sub(" ", message)
    for pattern in (_URL, _QUOTED, _NAME):
        rest = pattern.sub(take, rest)
    plain = {name.casefold().removeprefix("./").strip("/.: ") for name in names}
    return FailureSignature(frozenset(query_terms(rest)), frozenset(plain - {""}))


def similarity(first: FailureSignature, second: FailureSignature) -> float:
    """Return the similarity of two failures, up to 1; 0 if they differ."""
    words = jaccard(first.words, second.words)
    if words < MIN_WORD_SIMILARITY:
        return 0.0
    if not first.names or not second.names:
        return words
    names = jaccard(first.names, second.names)
    return (words + names) / 2 if names >= MIN_NAME_SIMILARITY else 0.0


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets; 1 for two empty ones."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0
