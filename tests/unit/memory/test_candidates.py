"""Candidate facts of a model, and which of them are accepted."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from choir_common.errors import InvalidRequest
from choir_memory.facts.candidates import (
    Candidate,
    SourceTurn,
    decide_on,
    parse_candidates,
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


def test_the_model_reads_numbered_dated_quoted_lines() -> None:
    assert render_turns(TURNS).splitlines() == [
        "> 1. [2026-03-01 09:30] Ana: I only drink green tea.",
        "> 2. [2026-03-01 09:30] main: Always answer in French, then.",
    ]


def test_an_answer_in_a_code_fence_is_read() -> None:
    assert parse_candidates('```json\n{"candidates": []}\n```') == []


@pytest.mark.parametrize("answer", ["Sure! Here it is", '{"candidates": [{"kind": "wish"}]}', "[]"])
def test_an_answer_that_does_not_fit_is_refused_in_words_for_the_model(answer: str) -> None:
    with pytest.raises(InvalidRequest, match="does not match the schema"):
        parse_candidates(answer)


def test_the_same_in_other_letters_is_the_same() -> None:
    assert make(object="Green Teas").identity == make().identity
    assert make(object="coffee").identity != make().identity
