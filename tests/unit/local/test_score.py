"""The written score: what is taken, and how what does not fit is told."""

import json
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_local.rehearsal.score import Steps, load_score, parse_score


def score_with(**parts: object) -> str:
    return json.dumps(parts)


def test_a_step_list_is_grouped_by_model_call() -> None:
    score = parse_score(
        score_with(
            otherwise=[
                {"delay_ms": 5},
                {"error": {"status": 429}},
                {"call": {"name": "choir.fs.read"}},
                {"say": "Done"},
            ]
        )
    )
    assert score.otherwise is not None
    groups = Steps.from_list(score.otherwise).answers
    assert [len(group) for group in groups] == [3, 1]


@pytest.mark.parametrize(
    ("parts", "place", "reason"),
    [
        ({"rules": [{"when": {}, "then": []}]}, "rules.0", "last step must say or call"),
        ({"rules": [{"when": {"regex": "("}, "then": [{"say": "x"}]}]}, "regex", "not a regular"),
        ({"otherwise": [{"say": "a"}, {"say": "b"}]}, "otherwise", "never reached"),
        ({"otherwise": [{"sya": "a"}]}, "otherwise.0.sya", "not permitted"),
        ({"scenes": [[{"error": {"status": 200}}, {"say": "a"}]]}, "status", "greater than"),
        ({"scenes": [[{"say": "a"}], [{"delay_ms": 1}]]}, "scenes", "scene 1"),
        ({"otherwise": [{"malformed": "sideways"}, {"say": "a"}]}, "malformed", "body"),
        (
            {"rules": [{"when": {"tool_result_of": "x"}, "then": [{"call": {"name": "y"}}] * 2}]},
            "rules.0",
            "answers once",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(
    parts: dict[str, object], place: str, reason: str
) -> None:
    with pytest.raises(StartupError) as caught:
        parse_score(score_with(**parts), "plays/one.json")
    assert "plays/one.json" in caught.value.message
    assert place in caught.value.message
    assert reason in caught.value.message


def test_a_score_that_is_not_there_says_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"cannot be read: No such file.*--score"):
        load_score(tmp_path / "none.json")


def test_no_json_is_said_to_be_none() -> None:
    with pytest.raises(StartupError, match="Invalid JSON"):
        parse_score("{")
