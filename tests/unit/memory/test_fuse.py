"""Weighing what the arms found, and what stands around it, into one order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choir_common.wire.memory_search import ALL_ARMS, Arm
from choir_memory.search.candidates import ArmResult, CandidateTable
from choir_memory.search.fusion import RankedDocument, RankingQuery, rank
from choir_memory.text.dates import QueriedTime

MAY = datetime(2023, 5, 8, tzinfo=UTC)
ASKED = RankingQuery(
    words=frozenset({"violin", "lesson", "anna"}),
    terms=("violin", "lesson"),
    counts=(2, 20),
    documents=100,
    mean_tokens=10.0,
    mean_cosine=0.1,
    cosine_deviation=0.1,
)


@dataclass(frozen=True)
class Row:
    """A document: what stands in one place of all columns."""

    document_id: UUID
    position: int
    session_id: str = "s"
    tokens: int = 10
    speaker: str | None = None
    asking: float = 0.0
    happened_at: datetime = MAY
    cosine: float | None = 0.1
    whole: float | None = None
    """The similarity without single sentences, if it differs."""
    counts: Mapping[int, int] = field(default_factory=dict)
    eligible: bool = True
    by_agent: bool = False


def row(name: int, **more: object) -> Row:
    """Make a document that says nothing to the question, or what `more` says."""
    return replace(Row(UUID(int=name), name * 10), **more)


def columns(rows: Sequence[Row], terms: int) -> CandidateTable:
    sessions = sorted({one.session_id for one in rows})
    return CandidateTable(
        [one.document_id for one in rows],
        np.array([sessions.index(one.session_id) for one in rows], np.int64),
        np.array([one.position for one in rows], np.int64),
        np.array([one.tokens for one in rows], np.float64),
        # two who talk in turn, unless a row says who
        [one.speaker or "ab"[one.position % 2] for one in rows],
        np.array([one.asking for one in rows], np.float64),
        np.array([one.by_agent for one in rows], np.bool_),
        [one.happened_at for one in rows],
        np.array([one.cosine for one in rows], np.float64),
        np.array([[one.counts.get(at, 0) for at in range(terms)] for one in rows], np.float64),
        np.array([one.eligible for one in rows], np.bool_),
        np.array([one.whole or one.cosine for one in rows], np.float64),
    )


def order(*rows: Row, question: RankingQuery = ASKED, arms: Sequence[Arm] = ALL_ARMS) -> list[int]:
    return [one.document_id.int for one in weigh(*rows, question=question, arms=arms)]


def weigh(
    *rows: Row, question: RankingQuery = ASKED, arms: Sequence[Arm] = ALL_ARMS
) -> list[RankedDocument]:
    return rank(question, columns(rows, len(question.terms)), {}, arms, 50)


def test_who_holds_both_words_and_meaning_comes_first() -> None:
    assert order(row(1, counts={0: 1}), row(2, counts={0: 1}, cosine=0.4), row(3, cosine=0.4)) == [
        2,
        1,
        3,
    ]


def test_a_similar_sentence_ranks_its_message_but_makes_it_no_more_relevant() -> None:
    plain, similar, other = row(1, cosine=0.3), row(2, cosine=0.9, whole=0.2), row(3, cosine=0.2)
    hits = {one.document_id.int: one for one in weigh(plain, similar, other)}
    assert list(hits) == [2, 1, 3]
    assert hits[2].relevance == hits[3].relevance < hits[1].relevance


def test_rare_words_weigh_more_than_common_ones() -> None:
    assert order(row(1, counts={1: 1}), row(2, counts={0: 1})) == [2, 1]


def test_words_that_nobody_used_leave_the_order_to_the_vectors() -> None:
    near, worded = row(1, cosine=0.5), row(2, counts={1: 1})
    assert order(near, worded) == [1, 2] or order(near, worded) == [2, 1]
    unheard = replace(ASKED, terms=("violin", "lesson", "x", "y", "z"), counts=(2, 20, 0, 0, 0))
    assert order(near, worded, question=unheard) == [1, 2]
    parts = {one.document_id.int: one.arms for one in weigh(near, worded, question=unheard)}
    alone = {one.document_id.int: one.arms for one in weigh(near, worded)}
    assert parts[2]["text"].part < alone[2]["text"].part
    assert parts[1]["vector"].part == alone[1]["vector"].part


def test_an_answer_inherits_the_words_of_the_question_before_it() -> None:
    question = row(1, position=4, counts={0: 1, 1: 1}, asking=1.0)
    answer = row(2, position=5)
    assert order(question, answer, row(3, position=90))[:2] == [1, 2]
    (_, told) = weigh(question, answer)
    assert told.arms["text"].rank == 0, "it was not found by its own words"
    statement = replace(question, asking=0.0)
    assert weigh(statement, answer)[1].score < told.score


def test_the_window_can_be_left_out() -> None:
    beside = row(2, position=5)
    without = tuple(arm for arm in ALL_ARMS if arm != "window")
    told = row(1, position=4, counts={0: 1})
    assert weigh(told, beside)[1].arms["text"].part > 0
    assert "text" not in weigh(told, beside, arms=without)[-1].arms


def test_what_stands_two_places_away_counts_less_than_what_stands_beside() -> None:
    told = row(1, position=4, counts={0: 1})
    parts = {
        one.document_id.int: one.arms["text"].part
        for one in weigh(told, *(row(name, position=name) for name in (2, 3, 5, 6)))
    }
    own = parts[1]
    assert parts == pytest.approx({1: own, 2: own / 4, 3: own * 0.4, 5: own / 2, 6: own / 4})


def test_neighbours_are_of_the_same_session() -> None:
    told = row(1, position=4, counts={0: 1})
    other = row(2, position=5, session_id="t")
    assert "text" not in weigh(told, other)[-1].arms


def test_what_the_filters_leave_out_weighs_and_is_not_found() -> None:
    hidden = row(1, position=4, counts={0: 1}, eligible=False)
    assert order(hidden, row(2, position=5), row(3)) == [2, 3]


def test_who_is_named_is_heard_first_and_the_name_is_no_word() -> None:
    named = replace(ASKED, terms=("anna", "violin"), counts=(50, 2))
    anna, bert = (
        row(1, speaker="Anna Ek", counts={1: 1}),
        row(2, speaker="Bert", counts={0: 2, 1: 1}),
    )
    assert order(anna, bert, question=named) == [1, 2]
    both = replace(named, words=frozenset({"anna", "bert", "violin"}))
    assert {one.arms.get("speaker") for one in weigh(anna, bert, question=both)} == {None}


def test_what_happened_in_the_asked_time_comes_first() -> None:
    asked = replace(ASKED, time=QueriedTime(year=2023, month=5))
    june = row(1, counts={0: 1}, happened_at=MAY.replace(month=6))
    assert order(june, row(2, counts={0: 1}), question=asked) == [2, 1]


def test_what_only_asks_comes_after_what_tells() -> None:
    assert order(row(1, counts={0: 1}, asking=1.0), row(2, counts={0: 1})) == [2, 1]


def test_a_session_with_several_near_documents_comes_first() -> None:
    topic = [row(at, session_id="topic", cosine=0.3) for at in (1, 2, 3)]
    alone = row(9, session_id="other", cosine=0.3)
    assert order(*topic, alone)[-1] == 9
    without = tuple(arm for arm in ALL_ARMS if arm != "session")
    assert len({one.score for one in weigh(*topic, alone, arms=without)}) == 1


def test_who_has_no_vector_yet_is_as_near_as_any() -> None:
    assert order(row(1, counts={0: 1}, cosine=-0.2), row(2, counts={0: 1}, cosine=None)) == [2, 1]


def test_what_no_arm_likes_is_left_out() -> None:
    assert order(row(1, cosine=-0.1), row(2, cosine=None)) == []


def test_what_the_agent_wrote_comes_after_what_the_user_said() -> None:
    agent = row(1, counts={0: 2, 1: 1}, by_agent=True)
    user = row(2, counts={0: 1, 1: 1})
    assert order(agent, user) == [2, 1]
    about_agent = replace(ASKED, asks_agent=True)
    assert order(agent, user, question=about_agent) == [1, 2]
    without = tuple(arm for arm in ALL_ARMS if arm != "role")
    assert order(agent, user, arms=without) == [1, 2]
    (deduction,) = [one.arms["role"].part for one in weigh(agent)]
    assert deduction < 0


def test_long_texts_gain_less_where_lengths_differ_widely() -> None:
    long, short = row(1, tokens=30, counts={0: 2}), row(2, tokens=10, counts={0: 1})
    even = [row(name, tokens=10) for name in range(3, 40)]
    uneven = [row(name, tokens=0 if name % 2 else 20) for name in range(3, 40)]
    scores = [
        {one.document_id.int: one.score for one in weigh(long, short, *others)}
        for others in (even, uneven)
    ]
    assert scores[0][1] / scores[0][2] > scores[1][1] / scores[1][2]


def test_between_two_equals_the_one_beside_a_good_match_comes_first() -> None:
    good = row(1, position=3, counts={0: 1, 1: 1})
    far, beside = row(2, position=50, counts={1: 1}), row(3, position=4, counts={1: 1})
    without = tuple(arm for arm in ALL_ARMS if arm != "window")
    assert order(good, far, beside) == [1, 3, 2]
    assert order(good, far, beside, arms=without) == [1, 2, 3]


def test_the_agents_answers_and_other_requests_add_nothing_to_a_message() -> None:
    good = row(1, position=3, counts={0: 1, 1: 1})
    beside = row(3, position=4, counts={1: 1})
    answers = [row(name, position=name, by_agent=True) for name in (60, 70, 80)]
    (_, told, *_) = weigh(good, beside, *answers)
    assert "window" not in told.arms
    (_, told) = weigh(good, beside)
    assert told.arms["window"].part > 0


def test_entries_of_a_diary_are_not_about_what_stands_beside_them() -> None:
    entry = row(1, position=4, counts={0: 1}, speaker="me")
    (best, *others) = weigh(entry, row(2, position=5, speaker="me", cosine=0.2))
    assert best.document_id.int == 1
    assert "text" not in others[0].arms and "window" not in others[0].arms


def test_a_month_weighs_as_much_as_its_words() -> None:
    time = QueriedTime(month=5, terms=frozenset({"violin"}))
    asked = replace(ASKED, time=time)
    then = row(1, counts={}, cosine=0.1)
    later = row(2, counts={1: 1}, happened_at=datetime(2023, 7, 1, tzinfo=UTC))
    assert order(then, later, question=asked) == [1, 2]
    assert order(then, later, question=replace(asked, time=QueriedTime(month=5))) == [2, 1]


def test_the_trace_adds_up_to_the_score() -> None:
    one = weigh(row(1, counts={0: 1}, cosine=0.3, speaker="Anna"))[0]
    assert one.score == pytest.approx(sum(arm.part for arm in one.arms.values()))


def test_the_trace_tells_the_rank_in_each_arm() -> None:
    told = row(1, counts={0: 1}, cosine=0.3)
    lists = {"text": [ArmResult(UUID(int=1), 7, 0.6)], "vector": [ArmResult(UUID(int=1), 3, 0.3)]}
    (one,) = rank(ASKED, columns([told], 2), lists, ALL_ARMS, 10)
    assert (one.arms["text"].rank, one.arms["text"].score) == (7, 0.6)
    assert (one.arms["vector"].rank, one.arms["vector"].score) == (3, 0.3)


# a place, a cosine, the counts of both terms, the share that asks, whether the filters let it be found
DRAWN = st.tuples(
    st.integers(0, 20),
    st.none() | st.floats(-1, 1),
    st.integers(0, 3),
    st.integers(0, 3),
    st.floats(0, 1),
    st.booleans(),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(DRAWN, max_size=20), st.integers(1, 25))
def test_the_order_is_by_score_without_doubles_and_within_the_limit(
    drawn: list[tuple[int, float | None, int, int, float, bool]], limit: int
) -> None:
    rows = [
        row(name, position=at, cosine=near, counts={0: a, 1: b}, asking=asks, eligible=kept)
        for name, (at, near, a, b, asks, kept) in enumerate(drawn)
    ]
    fused = rank(ASKED, columns(rows, 2), {}, ALL_ARMS, limit)
    assert len(fused) <= limit
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)
    assert len({one.document_id for one in fused}) == len(fused)
    assert {one.document_id for one in fused} <= {one.document_id for one in rows if one.eligible}


def test_a_similar_word_counts_less_than_the_word_itself() -> None:
    (exact,) = weigh(row(1, counts={0: 1}))
    (similar,) = weigh(row(1, counts={0: 1}), question=replace(ASKED, misspelt={"violin"}))
    assert 0 < similar.arms["typo"].part < exact.arms["text"].part
    assert "text" not in similar.arms and "typo" not in exact.arms


def test_a_document_that_answers_one_sentence_of_two_gains() -> None:
    asked = replace(ASKED, clauses=({"violin"}, {"lesson"}))
    one, both = row(1, counts={0: 1}), row(2, counts={0: 1, 1: 1})
    found = {one.document_id.int: one for one in weigh(one, both, question=asked)}
    assert found[1].arms["clause"].part > 0
    assert "clause" not in found[2].arms
    assert found[1].score < found[2].score
    without = tuple(arm for arm in ALL_ARMS if arm != "clause")
    assert "clause" not in weigh(one, question=asked, arms=without)[0].arms


def test_added_words_find_documents_and_take_nothing_from_others() -> None:
    asked = replace(ASKED, terms=("violin", "lesson", "bow"), counts=(2, 20, 5), added={"bow"})
    own, added = row(1, counts={0: 1}), row(2, counts={2: 1})
    found = {one.document_id.int: one for one in weigh(own, added, question=asked)}
    (alone,) = weigh(own)
    assert found[1].arms["text"].part == pytest.approx(alone.arms["text"].part)
    assert found[2].arms["expansion"].part > 0 and "text" not in found[2].arms
    assert found[1].score > found[2].score
