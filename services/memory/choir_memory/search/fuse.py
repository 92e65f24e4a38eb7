"""Weigh what the arms found into one order: words and meaning on one scale, with what stands around. Pure.

Called by `recall` with the candidates of the arms and their neighbours. The score of a document d for a
question with terms t of information i(t) (BM25's):

    text     sum of i(t) * w(d, t) / sum of i(t): the share of the question's information that d holds
    w(d, t)  its own words, saturated like BM25's; or a part of its neighbours', if that is more (window)
    meaning  the cosine in standard deviations over the space, with a part of the neighbours' (window)
    session  the mean deviation of the three nearest documents of its session
    score    text + VECTOR * meaning + SESSION * session + speaker + time, less QUESTION of it if d only asks

Every part is in shares of the question's information. A term that no document holds keeps its information,
the highest: when the question's words are not in the corpus, text shrinks for all and vectors decide. So the
weights come from the question and the corpus; no constant below belongs to a data set.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log
from uuid import UUID

from choir_common.wire.memories import Arm
from choir_memory.search.material_store import Material
from choir_memory.search.scored import Scored
from choir_memory.words.dates import AskedTime
from choir_memory.words.telling import named_speakers

SATURATION = 0.9
"""BM25's k1, how fast a repeated word stops counting: the usual value for short texts."""
LENGTH = 0.4
"""BM25's b: turns differ in length because they tell more, so less than the 0.75 for documents."""
FROM_BEFORE = 0.5
"""A turn inherits half of the words before it: people answer without repeating the topic..."""
FROM_QUESTION = 0.8
"""...and nearly all of them when what stands before asks: an answer is about what was asked."""
FROM_AFTER = 0.4
"""What follows tells what this was about, a little less surely."""
FROM_AFAR = 0.25
"""Two places away: half of a half."""
VECTOR = 0.075
"""One standard deviation of cosine in shares of information: about the plain mean of both arms."""
NEIGHBOUR = 0.3
"""Share of the neighbours' meaning."""
SPEAKER = 0.1
"""A named speaker is worth a tenth of the question: who is asked about mostly tells it, but not always."""
SESSION = 0.05
"""A session with several near documents: it is found when none of them stands out."""
SESSION_DOCUMENTS = 3
"""One near document is chance, three are a topic."""
TIME = 0.1
"""So is a named time."""
QUESTION = 0.2
"""What only asks holds at most this much less: it repeats the words and tells nothing."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what the space is like."""

    words: Collection[str]
    """All of its terms."""
    terms: Sequence[str]
    """Those that were looked for, and how many documents hold each."""
    counts: Sequence[int]
    documents: int
    mean_tokens: float
    mean_cosine: float = 0.0
    cosine_deviation: float = 0.0
    time: AskedTime | None = None
    readable: bool = True
    """Whether the embedder reads such questions; if not, words alone decide, if they find something."""


@dataclass(frozen=True, slots=True)
class Thought:
    """What an arm thought of a document: rank (0: it did not find it), score, and part of the whole."""

    rank: int
    score: float
    part: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A document, its final score, and what each arm thought of it."""

    document_id: UUID
    score: float
    arms: Mapping[Arm, Thought]


@dataclass(frozen=True, slots=True)
class _Around:
    """The neighbours of a document, None where there is none."""

    before: Material | None
    after: Material | None
    afar: tuple[Material, ...]


def fuse(
    question: Question,
    material: Sequence[Material],
    lists: Mapping[Arm, Sequence[Scored]],
    arms: Collection[Arm],
    limit: int,
) -> list[Fused]:
    """Return the best `limit` documents, best first; what neither words nor meaning speak for is left out."""
    weighing = _Weighing(question, material, arms)
    listed = {(arm, one.document_id): one for arm, scored in lists.items() for one in scored}
    fused = []
    for one in material:
        parts = weighing.parts(one) if one.eligible else None
        if parts and (parts["text"] > 0 or parts["vector"] > 0 or (one.cosine or 0) > 0):
            score = sum(parts.values()) * (1 - QUESTION * one.asking)
            fused.append(Fused(one.document_id, score, _thoughts(one, parts, listed)))
    fused.sort(key=lambda one: (-one.score, one.document_id))
    return fused[:limit]


class _Weighing:
    def __init__(
        self, question: Question, material: Sequence[Material], arms: Collection[Arm]
    ) -> None:
        self._question = question
        self._windows = "window" in arms
        self._at = {(one.session_id, one.position): one for one in material if one.session_id}
        named = named_speakers(question.words, {one.speaker for one in material if one.speaker})
        speaks = "speaker" in arms
        # of two who are named each may be meant
        self._speaker = next(iter(named)) if speaks and len(named) == 1 else None
        # a speaker's name stands in every turn of theirs, and in the other's greetings
        names = frozenset[str]().union(*named.values()) if speaks else frozenset[str]()
        self._time = question.time if "time" in arms else None
        self._information = self._informations(names)
        self._whole = sum(self._information.values())
        self._own = {one.document_id: self._own_words(one) for one in material}
        worded = any(self._own.values())
        self._trust = 1.0 if question.readable or not worded else 0.0
        self._sessions = self._near_sessions(material) if "session" in arms else {}

    def parts(self, one: Material) -> dict[Arm, float]:
        """Return what each part says of a document, in shares of the question's information."""
        around = self._around(one)
        return {
            "text": self._text(one, around),
            "vector": self._trust * VECTOR * self._meaning(one, around),
            "session": self._trust * SESSION * self._sessions.get(one.session_id, 0.0),
            "speaker": SPEAKER * (self._speaker is not None and one.speaker == self._speaker),
            "time": TIME * (self._time is not None and self._time.holds(one.happened_at)),
        }

    def _informations(self, names: Collection[str]) -> dict[int, float]:
        asked = self._question
        telling = [at for at, term in enumerate(asked.terms) if term not in names]
        return {
            at: log(1 + (asked.documents - held + 0.5) / (held + 0.5))
            for at in telling or range(len(asked.terms))
            if (held := asked.counts[at]) <= asked.documents
        }

    def _own_words(self, one: Material) -> dict[int, float]:
        length = 1 - LENGTH + LENGTH * one.tokens / max(self._question.mean_tokens, 1.0)
        spread = SATURATION * length
        return {
            term: count * (SATURATION + 1) / (count + spread)
            for term, count in one.counts.items()
            if term in self._information
        }

    def _around(self, one: Material) -> _Around:
        if not self._windows or one.session_id is None or one.position is None:
            return _Around(None, None, ())
        near = [self._at.get((one.session_id, one.position + step)) for step in (-2, -1, 1, 2)]
        return _Around(near[1], near[2], tuple(far for far in (near[0], near[3]) if far))

    def _text(self, one: Material, around: _Around) -> float:
        if self._whole <= 0:
            return 0.0
        held = dict(self._own[one.document_id])
        shares = [(far, FROM_AFAR) for far in around.afar]
        if around.before is not None:
            asks = min(1.0, 2 * around.before.asking)
            shares.append((around.before, FROM_BEFORE + (FROM_QUESTION - FROM_BEFORE) * asks))
        if around.after is not None:
            shares.append((around.after, FROM_AFTER))
        for neighbour, share in shares:
            for term, weight in self._own[neighbour.document_id].items():
                held[term] = max(held.get(term, 0.0), share * weight)
        return sum(self._information[term] * weight for term, weight in held.items()) / self._whole

    def _meaning(self, one: Material, around: _Around) -> float:
        if self._question.cosine_deviation <= 0:
            return 0.0
        beside = sum(self._nearness(other) for other in (around.before, around.after) if other)
        return self._nearness(one) + NEIGHBOUR * beside

    def _near_sessions(self, material: Sequence[Material]) -> dict[str | None, float]:
        nearest: dict[str | None, list[float]] = {}
        for one in material:
            if one.session_id is not None and (near := self._nearness(one)) > 0:
                nearest.setdefault(one.session_id, []).append(near)
        return {
            session: sum(sorted(found)[-SESSION_DOCUMENTS:]) / SESSION_DOCUMENTS
            for session, found in nearest.items()
        }

    def _nearness(self, one: Material) -> float:
        # what has no vector yet is taken to be as near as any
        if one.cosine is None or self._question.cosine_deviation <= 0:
            return 0.0
        return (one.cosine - self._question.mean_cosine) / self._question.cosine_deviation


def _thoughts(
    one: Material, parts: Mapping[Arm, float], listed: Mapping[tuple[Arm, UUID], Scored]
) -> dict[Arm, Thought]:
    thoughts: dict[Arm, Thought] = {}
    for arm, part in parts.items():
        found = listed.get((arm, one.document_id))
        if found is not None:
            thoughts[arm] = Thought(found.rank, found.score, part)
        elif part:
            thoughts[arm] = Thought(0, one.cosine or 0.0 if arm == "vector" else part, part)
    return thoughts
