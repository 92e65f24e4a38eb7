"""Select the most informative sentences of a period, for a service without a model: pure.

The result is deterministic and nothing is invented: every line is quoted from a source.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from choir_memory.text.tokens import query_terms

MAX_SENTENCE = 400
"""Maximum characters of one line; a longer sentence is pasted text, and its beginning is enough."""
DUPLICATE_SIMILARITY = 0.6
"""Jaccard similarity from which a sentence repeats another."""
MIN_WORDS = 3
"""Minimum words of a sentence; shorter ones (`yes, please`) are meaningless without context."""
_MAX_CONSIDERED = 2_000
"""Maximum sentences considered for one period; each is compared with those already selected."""
_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source's text, and the prefix of each of its sentences (date, speaker)."""

    prefix: str
    text: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    text: str
    words: frozenset[str]


def select_sentences(lines: Sequence[SourceLine], budget: int) -> str:
    """Return the best sentences of `lines` in their order, at most `budget` characters.

    A sentence is scored by the weights of its words: frequent in the period, but not in every sentence.
    """
    sentences = _sentences(lines)
    weights = _weights(sentences)
    ranked = sorted(sentences, key=lambda sentence: (-_worth(sentence, weights), sentence.place))
    selection: list[_Sentence] = []
    remaining = budget
    for sentence in ranked:
        if len(sentence.text) + 1 > remaining or any(
            jaccard(sentence.words, other.words) > DUPLICATE_SIMILARITY for other in selection
        ):
            continue
        selection.append(sentence)
        remaining -= len(sentence.text) + 1
    return "\n".join(
        sentence.text for sentence in sorted(selection, key=lambda sentence: sentence.place)
    )


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets; 0 for two empty ones."""
    union = len(first | second)
    return len(first & second) / union if union else 0.0


def _sentences(lines: Sequence[SourceLine]) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for line in lines:
        for text in filter(None, map(str.strip, _BREAK.split(line.text))):
            words = frozenset(query_terms(text[:MAX_SENTENCE]))
            if len(words) >= MIN_WORDS:
                line_text = line.prefix + " ".join(text[:MAX_SENTENCE].split())
                sentences.append(_Sentence(len(sentences), line_text, words))
    # an even sample of a long period, not its beginning
    step = math.ceil(len(sentences) / _MAX_CONSIDERED)
    return sentences[:: max(step, 1)]


def _weights(sentences: Sequence[_Sentence]) -> dict[str, float]:
    counts = Counter(word for sentence in sentences for word in sentence.words)
    total = len(sentences)
    return {word: math.log(1 + n) * math.log(1 + total / n) for word, n in counts.items()}


def _worth(sentence: _Sentence, weights: dict[str, float]) -> float:
    # divided by less than the length, so that a full sentence scores higher than a fragment of it
    return float(sum(weights[word] for word in sentence.words) / (len(sentence.words) + 5) ** 0.8)
