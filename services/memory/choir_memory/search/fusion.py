"""Combine the results of the arms into one ranking, with the context of each document. Pure.

The score of a document d for a
query with terms t of information i(t) (the inverse document frequency of BM25):

    text     sum of i(t) * w(d, t) / sum of i(t): the share of the query's information in d
    w(d, t)  saturated term frequency as in BM25; or a part of its neighbours', if that is more (window)
    meaning  the cosine in standard deviations over the space, plus a part of the neighbours' (window)
    session  the mean deviation of the three nearest documents of its session
    typo     the same share for words that stand in for misspelt ones, with less weight
    clause   what a document gains if it matches one sentence of the query better than the whole
    score    text + typo + clause + VECTOR * meaning + SESSION * session + speaker + time
             + expansion,
             less up to QUESTION of it if d asks, less AGENT of it if the agent wrote d (role),
             plus a part of the neighbours' scores (window)

All parts are shares of the query's information. A term that no document contains keeps its information,
which is the highest: when the query's words are not in the corpus, `text` is small for all documents and
vectors decide. So the weights depend on query and corpus, and no constant below is tuned to one data set.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from choir_common.wire.memory_search import Arm
from choir_memory.search.candidates import ArmResult, CandidateTable
from choir_memory.search.neighbourhood import Floats, RowNumbers
from choir_memory.search.relevance import average_similarity, estimate_relevance, find_split_pairs
from choir_memory.text.dates import QueriedTime
from choir_memory.text.questions import find_named_speakers

SATURATION = 0.9
"""BM25's k1, the saturation of repeated terms: the usual value for short texts."""
MIN_LENGTH_NORMALISATION, MAX_LENGTH_NORMALISATION = 0.4, 0.9
"""BM25's b. In a conversation of similar turns a longer one contains more information, so it is less than the
0.75 that is usual for documents; where lengths differ widely, long texts would contain every word."""
LENGTH_SPREAD = 0.8
"""Standard deviation of the lengths, in means, above which the normalisation grows, by half of the excess."""
WEIGHT_FROM_PREVIOUS = 0.5
"""A turn inherits half of the weights of the turn before it: answers rarely repeat the topic."""
WEIGHT_FROM_QUESTION = 0.8
"""Used instead if the turn before is a question: the answer is about the same topic."""
WEIGHT_FROM_NEXT = 0.4
"""A turn inherits less from the turn after it."""
WEIGHT_AT_DISTANCE_TWO = 0.25
"""For turns two positions away: half of a half."""
VECTOR_WEIGHT = 0.09
"""One standard deviation of cosine in shares of information: about the plain mean of both arms."""
NEIGHBOUR_WEIGHT = 0.3
"""Weight of the neighbours' similarity."""
SPEAKER_WEIGHT = 0.1
"""A speaker named in the query is worth a tenth of its information: mostly, not always, the one to quote
it from."""
SESSION_WEIGHT = 0.05
"""For a session with several similar documents, so that it is found even if none of them stands out."""
SESSION_DOCUMENTS = 3
"""One similar document may be chance; three are a topic."""
TIME_WEIGHT, ONLY_TIME_WEIGHT = 0.1, 0.5
"""The same weight for a time named in the query, at least: more if its words are more of the query, or if no
document contains any of its words."""
QUESTION_PENALTY = 0.2
"""The largest deduction, for a document that only asks: it repeats the words without information."""
AGENT_PENALTY = 0.6
"""The deduction for what the agent wrote: its answers repeat the words of a question at length, while
memory is mostly asked for what the user said. None if the query asks for the agent's words."""
TYPO_WEIGHT = 0.8
"""Weight of a similar word, times 1 - 2 / letters: a short word with one other letter is often another
word."""
EXPANSION_WEIGHT = 0.2
"""For all words that a model added; they are guesses, and add to a score without being missed by others."""
DIFFUSION = 0.2
"""Part of the score of the best neighbour, and of the best one two positions away, that is added: the answer
is often beside the turn that matches best.

Less the more of the space the agent wrote, and nothing if that is half: its neighbours are then requests
that have nothing to do with each other.
"""


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """The query, and statistics of the space."""

    words: Collection[str]
    """All terms of the query."""
    terms: Sequence[str]
    """The terms that were searched for; `counts` is the number of documents that contain each."""
    counts: Sequence[int]
    documents: int
    mean_tokens: float
    mean_cosine: float = 0.0
    cosine_deviation: float = 0.0
    mean_message_cosine: float | None = None
    """The mean without the vectors of single sentences; None: the same as `mean_cosine`."""
    time: QueriedTime | None = None
    readable: bool = True
    """Whether the embedding model supports the query's language; if not, vectors count only if no word
    matched."""
    asks_agent: bool = False
    """Whether the query asks for what the agent said."""
    misspelt: Collection[str] = ()
    """Terms with a column that counts similar words."""
    added: Collection[str] = ()
    """Terms that are not in the query: a model added them."""
    clauses: Sequence[Collection[str]] = ()
    """The terms of each sentence, if the query has several."""


class ArmContribution(NamedTuple):
    """An arm's result for a document: rank (0: not in its list), score, and contribution to the final
    score.

    A tuple, because each search creates fifty.
    """

    rank: int
    score: float
    part: float


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document, its final score, and the result of each arm."""

    document_id: UUID
    score: float
    arms: Mapping[Arm, ArmContribution]
    relevance: float = 0.0
    """Comparable between searches, unlike the score: see `search.relevance`."""


MATCHING_ARMS: tuple[Arm, ...] = ("text", "typo", "expansion")
"""With a positive contribution of one of these, a document is a match."""


def rank(
    question: RankingQuery,
    material: CandidateTable,
    lists: Mapping[Arm, Sequence[ArmResult]],
    arms: Collection[Arm],
    limit: int,
) -> list[RankedDocument]:
    """Return the best `limit` documents, best first, without those that match neither by word nor by
    vector."""
    if not material.ids:
        return []
    scoring = _Scoring(question, material, arms)
    parts, scores = scoring.score()
    is_match = (parts["vector"] > 0) | (material.cosines > 0)
    for arm in MATCHING_ARMS:
        is_match |= parts[arm] > 0
    best = material.top_rows(np.flatnonzero(material.eligible & is_match), scores, limit)
    # an array: numpy would convert the list for each of twenty columns
    rows, ids = np.array(best, np.int64), [material.ids[row] for row in best]
    contributions = _arm_contributions(material, rows, ids, parts, lists)
    relevances = scoring.relevances(rows, parts).tolist()
    return [
        RankedDocument(document_id, score, by_arm, relevance)
        for document_id, score, by_arm, relevance in zip(
            ids, scores[rows].tolist(), contributions, relevances, strict=True
        )
    ]


class _Scoring:
    """Scores of all documents as arrays. One extra row of zeros stands for a missing neighbour."""

    def __init__(
        self, question: RankingQuery, material: CandidateTable, arms: Collection[Arm]
    ) -> None:
        self._question = question
        self._material = material
        self._arms = arms
        self._named_speakers = find_named_speakers(
            question.words, material.neighbourhood.speaker_names
        )
        self._nearness = self._deviations()

    def score(self) -> tuple[dict[Arm, Floats], Floats]:
        """Return the contribution of each arm per document, in shares of the query's information, and the
        scores."""
        parts = self._own_parts()
        scores = sum(parts.values()) * (1 - QUESTION_PENALTY * self._material.question_shares)
        parts["role"] = -self._agent_penalty() * np.maximum(scores, 0.0)
        scores = scores + parts["role"]
        parts["window"] = self._diffused(scores)
        return parts, scores + parts["window"]

    def relevances(self, rows: RowNumbers, parts: Mapping[Arm, Floats]) -> Floats:
        """Return the relevance of these rows."""
        # whole messages: a sentence that happens to be similar must not bring up a reminder
        question, cosines = self._question, self._material.message_cosines[rows]
        if not question.readable:
            cosines = np.full(len(rows), np.nan)
        text = (
            parts["text"][rows] * self._total / max(self._total - self._split_information(), 1e-6)
        )
        matches: npt.NDArray[np.bool_] = np.any(self._own[rows] > 0, axis=1)
        documents = max(question.documents, len(self._material.ids))
        mean = question.mean_message_cosine
        average = average_similarity(question.mean_cosine if mean is None else mean, documents)
        return estimate_relevance(cosines, average, text, matches) + parts["time"][rows]

    def _split_information(self) -> float:
        """Return the information of pairs of characters that span two words of the query."""
        split = find_split_pairs(self._question.terms, self._question.counts)
        return float(self._information[split].sum())

    def _own_parts(self) -> dict[Arm, Floats]:
        trust = 1.0 if self._question.readable or not self._own.any() else 0.0
        return {
            **self._text_parts(),
            "vector": trust * VECTOR_WEIGHT * self._meaning(),
            "session": trust * SESSION_WEIGHT * self._sessions(),
            "speaker": SPEAKER_WEIGHT * self._spoken(),
            "time": self._time_weight() * self._timely(),
        }

    @cached_property
    def _information(self) -> Floats:
        """Return the information of each term, 0 for terms that are ignored."""
        question = self._question
        # names of speakers are ignored: they occur in all of their turns, and in greetings to them
        names = (
            frozenset[str]().union(*self._named_speakers.values())
            if "speaker" in self._arms
            else ()
        )
        telling = [at for at, term in enumerate(question.terms) if term not in names]
        information = np.zeros(len(question.terms))
        # a query that consists of names only is ranked by them
        for at in telling or range(len(question.terms)):
            if (count := question.counts[at]) <= question.documents:
                information[at] = log(1 + (question.documents - count + 0.5) / (count + 0.5))
        return information

    @cached_property
    def _own(self) -> Floats:
        """Return the weight of each term in each document."""
        material = self._material
        mean = max(self._question.mean_tokens, 1.0)
        spread = max(0.0, float(material.tokens.std()) / mean - LENGTH_SPREAD)
        normalisation = min(MAX_LENGTH_NORMALISATION, MIN_LENGTH_NORMALISATION + spread / 2)
        length = 1 - normalisation + normalisation * material.tokens / mean
        counts, is_used = material.counts, self._information > 0
        if not is_used.all():
            counts = counts * is_used
        own = np.zeros((len(counts) + 1, counts.shape[1]))
        weights = own[:-1]
        np.multiply(counts, SATURATION + 1, out=weights)
        weights /= counts + (SATURATION * length)[:, None]
        if len(self._misspelt):
            weights[:, self._misspelt] *= self._certainty
        return own

    @cached_property
    def _neighbor_rows(self) -> Sequence[RowNumbers]:
        """Return the rows of the documents two and one before, and one and two after each document."""
        count = len(self._material.ids)
        if "window" not in self._arms:
            return [np.full(count, count)] * 4
        return [self._material.neighbourhood.rows_at(step) for step in (-2, -1, 1, 2)]

    @property
    def _conversation_share(self) -> float:
        # without the window no document has neighbours
        return self._material.neighbourhood.conversation_share if "window" in self._arms else 1.0

    @cached_property
    def _misspelt(self) -> RowNumbers:
        """Return the columns of misspelt terms."""
        terms = self._question.terms
        misspelt = self._question.misspelt
        return np.array([at for at, term in enumerate(terms) if term in misspelt], np.int64)

    @cached_property
    def _certainty(self) -> Floats:
        """Return the weight of similar words in each of those columns."""
        letters = [len(self._question.terms[at]) for at in self._misspelt]
        return TYPO_WEIGHT * (1 - 2 / np.array(letters, np.float64))

    @cached_property
    def _added(self) -> npt.NDArray[np.bool_]:
        """Return which terms a model added."""
        return np.array([term in self._question.added for term in self._question.terms], np.bool_)

    @cached_property
    def _total(self) -> float:
        """Return the information of the query: of all its own terms."""
        return float(self._information[~self._added].sum())

    def _text_parts(self) -> dict[Arm, Floats]:
        """Return what a document has of the query's words, of similar ones, and of added ones."""
        nothing = np.zeros(len(self._material.ids))
        parts: dict[Arm, Floats] = {
            "text": nothing,
            "typo": nothing,
            "clause": nothing,
            "expansion": nothing,
        }
        if self._total <= 0:
            return parts
        # no matrix product: its rounding depends on the row's position
        amounts = self._term_weights() * self._information
        exact = ~self._added
        exact[self._misspelt] = False
        own = amounts if exact.all() else amounts[:, exact]
        parts["text"] = own.sum(axis=1) / self._total
        if len(self._misspelt):
            parts["typo"] = amounts[:, self._misspelt].sum(axis=1) / self._total
        if (added := float(self._information[self._added].sum())) > 0:
            parts["expansion"] = EXPANSION_WEIGHT * amounts[:, self._added].sum(axis=1) / added
        if "clause" in self._arms and self._question.clauses:
            query_share = parts["text"] + parts["typo"]
            parts["clause"] = np.maximum(0.0, self._best_clause(amounts) - query_share)
        return parts

    def _term_weights(self) -> Floats:
        """Return the weight of each term in each document, including what it inherits."""
        own, (before2, before, after, after2) = self._own, self._neighbor_rows
        talk = self._conversation_share
        if talk <= 0:
            return own[:-1]
        asks = np.minimum(1.0, 2 * np.append(self._material.question_shares, 0.0).take(before))
        inherited = WEIGHT_FROM_PREVIOUS + (WEIGHT_FROM_QUESTION - WEIGHT_FROM_PREVIOUS) * asks
        # `take` gathers rows in a quarter of the time that indexing needs
        weights, following = own.take(before, axis=0), own.take(after, axis=0)
        weights *= (talk * inherited)[:, None]
        np.maximum(own[:-1], weights, out=weights)
        following *= talk * WEIGHT_FROM_NEXT
        np.maximum(weights, following, out=weights)
        distant = own.take(before2, axis=0)
        np.maximum(distant, own.take(after2, axis=0), out=distant)
        distant *= talk * WEIGHT_AT_DISTANCE_TWO
        np.maximum(weights, distant, out=weights)
        return weights

    def _best_clause(self, amounts: Floats) -> Floats:
        """Return the share of the best sentence's information, less the less that sentence says.

        A sentence with half of the query's information counts 0.7 of its share.
        """
        best = np.zeros(len(self._material.ids))
        for clause in self._question.clauses:
            columns = [at for at, term in enumerate(self._question.terms) if term in clause]
            if (clause_information := float(self._information[columns].sum())) > 0:
                share = amounts[:, columns].sum(axis=1) / clause_information
                best = np.maximum(best, share * sqrt(min(1.0, clause_information / self._total)))
        return best

    def _meaning(self) -> Floats:
        near, (_, before, after, _) = self._nearness, self._neighbor_rows
        weight = NEIGHBOUR_WEIGHT * self._conversation_share
        if weight <= 0:
            return near[:-1]
        meaning: Floats = near[:-1] + weight * (near.take(before) + near.take(after))
        return meaning

    def _sessions(self) -> Floats:
        material, near = self._material, self._nearness[:-1]
        means = np.zeros(len(near))
        if "session" not in self._arms:
            return means
        counted = np.flatnonzero((near > 0) & (material.sessions >= 0))
        if not len(counted):
            return means
        nearest_last = counted[near[counted].argsort()]
        # a stable sort of 16-bit numbers takes a tenth of the time; a small space has fewer sessions
        sort_keys = material.sessions[nearest_last].astype(np.min_scalar_type(len(near)))
        order = nearest_last[sort_keys.argsort(kind="stable")]
        sessions, nearest = material.sessions[order], np.append(near[order], 0.0)
        last = np.append(np.flatnonzero(sessions[1:] != sessions[:-1]), len(sessions) - 1)
        first = np.append(0, last[:-1] + 1)
        total = np.zeros(len(last))
        for back in range(SESSION_DOCUMENTS - 1, -1, -1):
            total += nearest[np.where(last - back >= first, last - back, len(order))]
        by_session = np.zeros(int(material.sessions.max()) + 1)
        by_session[sessions[last]] = total / SESSION_DOCUMENTS
        return np.where(material.sessions >= 0, by_session[material.sessions], 0.0)

    def _spoken(self) -> Floats:
        speakers = self._material.speakers
        # if two speakers are named, it is unclear which one is meant
        if "speaker" not in self._arms or len(self._named_speakers) != 1:
            return np.zeros(len(speakers))
        (named_speaker,) = self._named_speakers
        return np.array([float(speaker == named_speaker) for speaker in speakers])

    def _time_weight(self) -> float:
        """Return the weight of the queried time: the information of its words, at least `TIME_WEIGHT`."""
        time, total = self._question.time, self._total
        if time is None or total <= 0:
            return ONLY_TIME_WEIGHT
        words = [at for at, term in enumerate(self._question.terms) if term in time.terms]
        return max(TIME_WEIGHT, float(self._information[words].sum()) / total)

    def _timely(self) -> Floats:
        time, moments = self._question.time, self._material.happened_at
        if "time" not in self._arms or time is None:
            return np.zeros(len(moments))
        return np.array([float(moment is not None and time.holds(moment)) for moment in moments])

    def _agent_penalty(self) -> Floats:
        by_agent = self._material.by_agent
        if "role" not in self._arms or self._question.asks_agent:
            return np.zeros(len(by_agent))
        return np.where(by_agent, AGENT_PENALTY, 0.0)

    def _diffused(self, scores: Floats) -> Floats:
        by_agent = self._material.by_agent
        weight = DIFFUSION * self._conversation_share * (1 - min(1.0, 2 * float(by_agent.mean())))
        if "window" not in self._arms or weight <= 0:
            return np.zeros(len(scores))
        positive = np.append(np.maximum(scores, 0.0), 0.0)
        roles = np.append(by_agent, False)
        before2, before, after, after2 = (
            np.where(roles.take(rows) == by_agent, positive.take(rows), 0.0)
            for rows in self._neighbor_rows
        )
        diffused: Floats = weight * (np.maximum(before, after) + np.maximum(before2, after2))
        return diffused

    def _deviations(self) -> Floats:
        # a document without a vector gets the average similarity
        cosines, deviation = self._material.cosines, self._question.cosine_deviation
        if deviation <= 0:
            return np.zeros(len(cosines) + 1)
        near = (cosines - self._question.mean_cosine) / deviation
        return np.append(np.where(np.isnan(near), 0.0, near), 0.0)


def _arm_contributions(
    material: CandidateTable,
    rows: RowNumbers,
    ids: Sequence[UUID],
    parts: Mapping[Arm, Floats],
    lists: Mapping[Arm, Sequence[ArmResult]],
) -> list[dict[Arm, ArmContribution]]:
    """Return the results of the arms for each of the rows, which have these ids."""
    contributions: list[dict[Arm, ArmContribution]] = [{} for _ in ids]
    hit_ids = frozenset(ids)
    cosines = material.cosines[rows]
    for arm, column in parts.items():
        results = {
            result.document_id: result
            for result in lists.get(arm, ())
            if result.document_id in hit_ids
        }
        column_parts = column[rows].tolist()
        if not results and not any(column_parts):
            continue
        scores = column_parts
        if arm == "vector":
            scores = np.where(np.isnan(cosines), 0.0, cosines).tolist()
        values = zip(contributions, ids, column_parts, scores, strict=True)
        for contribution, document_id, part, score in values:
            if (result := results.get(document_id)) is not None:
                contribution[arm] = ArmContribution(result.rank, result.score, part)
            elif part:
                contribution[arm] = ArmContribution(0, score, part)
    return contributions
