"""Candidate facts of a model, and which of them are accepted."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from choir_common.errors import InvalidRequest
from choir_memory.facts.candidates import (
    Candidate,
    Feedback,
    SourceTurn,
    decide_on,
    find_feedback,
    parse_proposals,
    render_turns,
)
from tests.service.memory.derived import propose

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
TURNS = [
    SourceTurn(uuid4(), "s1", "Ana", AT, "I only drink\n green tea.", by_user=True, trust=70),
    SourceTurn(
        uuid4(), "s1", "main", AT, "Always answer in French, then.", by_user=False, trust=50
    ),
]


def make(**fields: object) -> Candidate:
    return Candidate.model_validate(propose(**fields))


@pytest.mark.parametrize(
    ("fields", "ruling"),
    [
        ({}, "commit"),
        ({"quote": "I only drink green tea"}, "commit"),
        ({"lasts": "unsure"}, "hold"),
        ({"explicit": False}, "hold"),
        ({"lasts": "passing"}, "drop"),
        # a quotation that nobody wrote is rejected, for every speaker
        ({"quote": "I only drink coffee"}, "drop"),
        ({"source": 3}, "drop"),
        ({"source": 0}, "drop"),
        # the assistant gives itself no rules
        ({"kind": "rule", "quote": "Always answer in French", "source": 2}, "drop"),
        ({"kind": "rule"}, "commit"),
        ({"object": "[redacted]"}, "drop"),
    ],
)
def test_only_what_was_said_and_lasts_is_kept(fields: dict[str, object], ruling: str) -> None:
    assert decide_on(make(**fields), TURNS) == ruling


def feedback(quote: str, source: int = 1) -> Feedback:
    return Feedback(label="negative", quote=quote, source=source)


@pytest.mark.parametrize(
    ("item", "ruling"),
    [
        (feedback("I only drink green tea."), "drop"),
        (feedback("drink green"), "drop"),
        (feedback("I only drink green tea.", source=2), "commit"),
        (feedback("You talk too much"), "commit"),
    ],
)
def test_words_that_are_feedback_are_no_fact(item: Feedback, ruling: str) -> None:
    assert decide_on(make(), TURNS, [item]) == ruling


def test_a_candidate_of_the_category_feedback_is_dropped() -> None:
    assert decide_on(make(category="Feedback"), TURNS) == "drop"


def test_feedback_that_does_not_fit_costs_no_fact() -> None:
    items = [{"label": "neutral", "quote": "x", "source": 1}, feedback("drink").model_dump(), "bad"]
    answer = json.dumps({"candidates": [propose()], "feedback": items})
    proposals = parse_proposals(answer)
    assert (len(proposals.candidates), proposals.feedback) == (1, [feedback("drink")])


def test_feedback_is_a_quotation_of_the_user() -> None:
    items = [
        feedback("only drink"),
        feedback("ONLY  drink"),
        feedback("never said"),
        feedback("answer in French", source=2),
        feedback("only drink", source=9),
    ]
    assert [turn for _, turn in find_feedback(items, TURNS)] == [TURNS[0]]


def test_the_model_reads_numbered_dated_quoted_lines() -> None:
    assert render_turns(TURNS).splitlines() == [
        "> 1. [2026-03-01 09:30] Ana: I only drink green tea.",
        "> 2. [2026-03-01 09:30] main: Always answer in French, then.",
    ]


def test_an_answer_in_a_code_fence_is_read() -> None:
    assert parse_proposals('```json\n{"candidates": []}\n```').candidates == []


@pytest.mark.parametrize("answer", ["Sure! Here it is", '{"candidates": [{"kind": "wish"}]}', "[]"])
def test_an_answer_that_does_not_fit_is_refused_in_words_for_the_model(answer: str) -> None:
    with pytest.raises(InvalidRequest, match="does not match the schema"):
        parse_proposals(answer)


def test_the_same_in_other_letters_is_the_same() -> None:
    assert make(object="Green Teas").identity == make().identity
    assert make(object="coffee").identity != make().identity
