"""Synthetic documents, questions and vectors like those of a diary: a few common words, rare ones, topics.

A vector is the weighted sum of its words' vectors, so documents of one topic are close together, near a
subspace of a few dozen dimensions, as with real embedding models. Noise in all 384 dimensions would make
every index look bad and every neighbour arbitrary. Seeds are fixed: every run has the same data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

DIMENSIONS = 384
WORDS = 30_000
TOPICS = 400
TOPIC_WORDS = 120
TOPIC_SHARE = 0.4
"""Share of a document's words that come from its topic; the others follow a Zipf distribution."""
MEAN_WORDS = 30
SHORTEST, LONGEST = 4, 150
WORD_DIMENSIONS = 48
"""Dimensions of the subspace that contains the words' vectors."""
NOISE = 0.1
"""Length of the random part of a document's vector, relative to the part from its words."""
NOISES = 4_096

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class WordSequence:
    """A text as a sequence of word numbers."""

    words: tuple[int, ...]

    @property
    def text(self) -> str:
        """Return the text as it is stored; the digits prevent stemming."""
        return " ".join(f"w{word}x" for word in self.words)


class Corpus:
    """A generator of documents, questions and vectors; documents depend on a seed."""

    @cached_property
    def _meanings(self) -> Floats:
        random = np.random.default_rng(7)
        meanings = random.standard_normal((WORDS, WORD_DIMENSIONS)).astype(np.float32)
        return np.asarray(meanings * self._information[:, None])

    @cached_property
    def _spread(self) -> Floats:
        random = np.random.default_rng(8)
        return np.asarray(random.standard_normal((WORD_DIMENSIONS, DIMENSIONS)).astype(np.float32))

    @cached_property
    def _noise(self) -> Floats:
        # a text's noise is the sum of two rows: drawing 384 numbers per text would dominate the run time
        noise = np.random.default_rng(9).standard_normal((NOISES, DIMENSIONS))
        return np.asarray(noise * (NOISE / (2 * DIMENSIONS) ** 0.5), np.float32)

    @cached_property
    def _information(self) -> Floats:
        """Return the weight of each word; common words have a low one."""
        return (np.log(1 / self._shares) / 10).astype(np.float32)

    @cached_property
    def _shares(self) -> npt.NDArray[np.float64]:
        shares = 1 / np.arange(3, WORDS + 3) ** 1.05
        return np.asarray(shares / shares.sum())

    @cached_property
    def _topics(self) -> npt.NDArray[np.int64]:
        # without the most common words, which belong to every topic
        return np.random.default_rng(11).integers(300, WORDS, (TOPICS, TOPIC_WORDS))

    def documents(self, count: int, seed: int) -> Iterator[WordSequence]:
        """Yield `count` documents."""
        random = np.random.default_rng(seed)
        lengths = random.lognormal(np.log(MEAN_WORDS), 0.6, count).clip(SHORTEST, LONGEST)
        common = random.choice(WORDS, 4_000_000 if count > 100_000 else 500_000, p=self._shares)
        for length in lengths.astype(int):
            of_topic = max(1, int(length * TOPIC_SHARE))
            topic = self._topics[random.integers(TOPICS)]
            start = random.integers(len(common) - LONGEST)
            words = (
                *topic[random.integers(TOPIC_WORDS, size=of_topic)].tolist(),
                *common[start : start + length - of_topic].tolist(),
            )
            yield WordSequence(words)

    def questions(
        self, documents: Sequence[WordSequence], count: int, seed: int
    ) -> list[WordSequence]:
        """Return questions, each with some words of one of the `documents` and some common words."""
        random = np.random.default_rng(seed)
        made = []
        for at in random.integers(len(documents), size=count):
            words = documents[at].words
            told = random.choice(words, size=min(6, len(words)), replace=False).tolist()
            asked = random.choice(WORDS, 3, p=self._shares).tolist()
            made.append(WordSequence((*told, *asked)))
        return made

    def vectors(self, texts: Sequence[WordSequence]) -> Floats:
        """Return one unit vector per text."""
        lengths = [len(one.words) for one in texts]
        words = np.fromiter(chain.from_iterable(one.words for one in texts), np.int64, sum(lengths))
        starts = np.cumsum([0, *lengths[:-1]])
        made = np.add.reduceat(self._meanings[words], starts) @ self._spread
        chance = np.array([hash(one.words) & 0xFFFF_FFFF for one in texts])
        noise = self._noise[chance % NOISES] + self._noise[chance // NOISES % NOISES]
        made += noise * np.linalg.norm(made, axis=1, keepdims=True)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def parse(text: str) -> WordSequence:
    """Parse a text of this corpus; an empty text becomes the most common word."""
    words = tuple(int(word[1:-1]) for word in text.split() if word[1:-1].isdecimal())
    return WordSequence(words or (0,))
