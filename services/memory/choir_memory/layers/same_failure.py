"""Tell whether two messages are of the same failure: pure. Called by `tool_errors`.

A message is a template with names in it: files, modules, hosts, quoted words. Two messages of one template
that name different things are different failures, and what helped with one says nothing about the other.
"""

import re
from dataclasses import dataclass

from choir_memory.words.tokens import query_terms

ALIKE = 0.3
"""Jaccard of the messages' words, names and numbers aside, from which they are of one template."""
SAME_NAMES = 0.5
"""Jaccard of the names in them from which they are about the same; a traceback shares some with others."""
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?([^\s/:'\"`<>]+)[^\s'\"`<>]*", re.IGNORECASE
)
_QUOTED = re.compile(r"(?<!\w)['\"`‘“«]([^'\"`’”»\n]{1,200})['\"`’”»](?!\w)")
_NUMBER = re.compile(r"(?<![\w.-])(?:\d+|0x[0-9a-f]+)(?![\w.-]*\w)", re.IGNORECASE)
# a path, a file or a host, an identifier that has a digit among its letters
_NAME = re.compile(
    r"((?:[\w~.-]*/[\w./@+~-]+)|\w[\w-]*(?:[.@:]+\w[\w-]*)+|(?=\w*\d)(?=\w*[^\W\d_])\w+)"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call's message, taken apart."""

    words: frozenset[str]
    """Of the template."""
    names: frozenset[str]
    """Of files, modules, hosts; whatever stands in quotation marks."""


def read_failure(said: str) -> Failure:
    """Take a message apart."""
    names: list[str] = []

    def take(found: re.Match[str]) -> str:
        names.append(found[1])
        return " "

    rest = _NUMBER.sub(" ", said)
    for pattern in (_URL, _QUOTED, _NAME):
        rest = pattern.sub(take, rest)
    plain = {name.casefold().removeprefix("./").strip("/.: ") for name in names}
    return Failure(frozenset(query_terms(rest)), frozenset(plain - {""}))


def likeness(first: Failure, second: Failure) -> float:
    """Return how alike two failures are, up to 1; 0 if they are different ones."""
    words = jaccard(first.words, second.words)
    if words < ALIKE:
        return 0.0
    if not first.names or not second.names:
        return words
    names = jaccard(first.names, second.names)
    return (words + names) / 2 if names >= SAME_NAMES else 0.0


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of members that two sets have in common; 1 for two empty ones."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0
