"""Documents, questions and vectors like those of a diary: few words are common, most are rare, topics recur.

A vector is the weighted sum of its words' vectors: documents of one topic lie together, near a plane of some
dozens of dimensions, as the vectors of language models do. Noise in all 384 would make every index look bad
and every neighbour arbitrary. The same numbers at every run.
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
"""Of a document's words; the others are drawn from all, as Zipf has it."""
MEAN_WORDS = 30
SHORTEST, LONGEST = 4, 150
MEANINGS = 48
"""Dimensions that words differ in."""
NOISE = 0.1
"""Of a document's vector: what no word explains."""
NOISES = 4_096

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Text:
    """Words by number."""

    words: tuple[int, ...]

    @property
    def text(self) -> str:
        """Return it as it is stored; digits keep the stemmer away."""
        return " ".join(f"w{word}x" for word in self.words)


class Corpus:
    """A source of documents; each `seed` has its own."""

    @cached_property
    def _meanings(self) -> Floats:
        random = np.random.default_rng(7)
        meanings = random.standard_normal((WORDS, MEANINGS)).astype(np.float32)
        return np.asarray(meanings * self._information[:, None])

    @cached_property
    def _spread(self) -> Floats:
        random = np.random.default_rng(8)
        return np.asarray(random.standard_normal((MEANINGS, DIMENSIONS)).astype(np.float32))

    @cached_property
    def _noise(self) -> Floats:
        # two rows of it make a text's own: drawing 384 numbers for each would take longer than all else
        noise = np.random.default_rng(9).standard_normal((NOISES, DIMENSIONS))
        return np.asarray(noise * (NOISE / (2 * DIMENSIONS) ** 0.5), np.float32)

    @cached_property
    def _information(self) -> Floats:
        """Return how much a word tells: the common ones little."""
        return (np.log(1 / self._shares) / 10).astype(np.float32)

    @cached_property
    def _shares(self) -> npt.NDArray[np.float64]:
        shares = 1 / np.arange(3, WORDS + 3) ** 1.05
        return np.asarray(shares / shares.sum())

    @cached_property
    def _topics(self) -> npt.NDArray[np.int64]:
        # not the commonest words: those belong to every topic
        return np.random.default_rng(11).integers(300, WORDS, (TOPICS, TOPIC_WORDS))

    def documents(self, count: int, seed: int) -> Iterator[Text]:
        """Return `count` documents."""
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
            yield Text(words)

    def questions(self, documents: Sequence[Text], count: int, seed: int) -> list[Text]:
        """Return questions, each about one of `documents`: some of its words among common ones."""
        random = np.random.default_rng(seed)
        made = []
        for at in random.integers(len(documents), size=count):
            words = documents[at].words
            told = random.choice(words, size=min(6, len(words)), replace=False).tolist()
            asked = random.choice(WORDS, 3, p=self._shares).tolist()
            made.append(Text((*told, *asked)))
        return made

    def vectors(self, texts: Sequence[Text]) -> Floats:
        """Return a unit vector a text."""
        lengths = [len(one.words) for one in texts]
        words = np.fromiter(chain.from_iterable(one.words for one in texts), np.int64, sum(lengths))
        starts = np.cumsum([0, *lengths[:-1]])
        made = np.add.reduceat(self._meanings[words], starts) @ self._spread
        chance = np.array([hash(one.words) & 0xFFFF_FFFF for one in texts])
        noise = self._noise[chance % NOISES] + self._noise[chance // NOISES % NOISES]
        made += noise * np.linalg.norm(made, axis=1, keepdims=True)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def parse(text: str) -> Text:
    """Return the words of a text made here; an empty one has the commonest word."""
    words = tuple(int(word[1:-1]) for word in text.split() if word[1:-1].isdecimal())
    return Text(words or (0,))
