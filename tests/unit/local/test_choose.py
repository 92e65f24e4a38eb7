"""Which answer the rehearsal model gives: read from the messages alone."""

import json
from collections.abc import Mapping, Sequence

import pytest

from choir_local.rehearsal.answers import ScriptedAnswer, choose_answer
from choir_local.rehearsal.score import ErrorStep, Score, parse_score
from choir_local.rehearsal.turn import ChatRequest, read_turn

GREETING = "Hello, I am scripted."
READ = {"call": {"name": "choir.fs.read", "arguments": {"path": "{match.1}"}}}


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def called(name: str, result: object) -> list[dict[str, object]]:
    """Return an assistant's call and the tool's answer."""
    function = {"name": name, "arguments": "{}"}
    text = result if isinstance(result, str) else json.dumps(result)
    return [
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "f", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": text},
    ]


def answer(
    *messages: Mapping[str, object],
    score: Mapping[str, object] | None = None,
    tools: Sequence[str] = ("choir_fs_read", "choir_fs_write"),
) -> ScriptedAnswer:
    path = {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}
    offered = [{"type": "function", "function": {"name": n, "parameters": path}} for n in tools]
    request = {"model": "rehearsal", "messages": messages, "tools": offered}
    asked = ChatRequest.model_validate_json(json.dumps(request))
    return choose_answer(
        read_turn(asked), parse_score(json.dumps(score)) if score else Score(), GREETING
    )


def test_without_a_score_it_greets_first() -> None:
    assert answer(user("good evening")).text == GREETING


def test_without_a_score_it_says_later_that_it_only_repeats() -> None:
    said = answer(user("hi"), {"role": "assistant", "content": "x"}, user("Is it raining?"))
    assert said.text is not None
    assert "Is it raining?" in said.text
    assert "no real intelligence" in said.text


@pytest.mark.parametrize(
    "order",
    [
        '/tool choir.fs.read {"path": "a {b}.txt"}',
        'Please use the tool choir.fs.read with {"path": "a {b}.txt"}, thanks',
        'run tool `choir.fs.read` {"path": "a {b}.txt"}',
        'call the tool choir_fs_read with {"path": "a {b}.txt"}',
    ],
)
def test_a_named_tool_is_called_when_asked_for(order: str) -> None:
    (call,) = answer(user(order)).calls
    assert (call.name, call.arguments) == ("choir_fs_read", {"path": "a {b}.txt"})


def test_a_tools_answer_is_reported() -> None:
    order = user('/tool choir.fs.read {"path": "a"}')
    said = answer(order, *called("choir_fs_read", "the contents"))
    assert said.text == "The tool choir_fs_read answered: the contents"


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    said = answer(user("/tool choir.rockets.launch {}"))
    assert said.calls == ()
    assert said.text is not None
    assert "choir_fs_read, choir_fs_write" in said.text


def test_arguments_that_are_no_json_are_complained_about() -> None:
    said = answer(user("/tool choir.fs.read {path: x}")).text
    assert said is not None
    assert "not a JSON object" in said


def test_so_many_tools_are_called_one_after_the_other() -> None:
    messages = [user("#tools=2")]
    for _ in range(2):
        (call,) = answer(*messages).calls
        assert (call.name, call.arguments) == ("choir_fs_read", {"path": "README.md"})
        messages += called("choir_fs_read", "text")
    assert answer(*messages).text == "Done: 2 tool calls. The last answered: text"


def test_the_tool_of_so_many_calls_can_be_chosen() -> None:
    (call,) = answer(user('#tools=3 #tool=choir.fs.write {"path": "x"} #delay=40')).calls
    assert (call.name, call.arguments) == ("choir_fs_write", {"path": "x"})


def test_directives_wait_and_fail_beside_a_score() -> None:
    assert answer(user("#stream=30 go")).chunk_delay_ms == 30
    said = answer(user("#delay=40 #error=503x2 go"), score={"otherwise": [{"say": "Gone."}]})
    assert said.text == "Gone."
    assert said.delay_ms == 40
    assert said.faults == (ErrorStep(status=503, times=2),)


def test_a_rule_goes_on_where_the_messages_stand() -> None:
    score = {
        "rules": [
            {
                "when": {"regex": "[Rr]ead (\\S+)"},
                "then": [READ, READ, {"say": "{match.1}: {results.0.text} {result.lines.1}"}],
            }
        ]
    }
    first, second = {"text": "one"}, {"lines": [1, 2]}
    messages = [user("read a.txt")]
    assert answer(*messages, score=score).calls[0].arguments == {"path": "a.txt"}
    messages += called("choir_fs_read", first)
    assert answer(*messages, score=score).calls != ()
    messages += called("choir_fs_read", second)
    assert answer(*messages, score=score).text == "a.txt: one 2"


def test_the_first_rule_that_fits_is_played() -> None:
    score = {
        "rules": [
            {"when": {"contains": "tea", "system_contains": "butler"}, "then": [{"say": "no"}]},
            {"when": {"contains": "TEA"}, "then": [{"say": "With milk?"}]},
            {"when": {}, "then": [{"say": "Pardon?"}]},
        ]
    }
    assert answer(user("Some tea, please"), score=score).text == "With milk?"
    assert answer(user("Coffee"), score=score).text == "Pardon?"


def test_a_part_of_a_result_is_found_before_a_remark_about_its_picture() -> None:
    score = {"otherwise": [{"say": "It is {result.file.path}."}]}
    result = json.dumps({"file": {"path": "a.png"}}) + '\n\n[Choir] "a.png": you cannot see it.'
    assert (
        answer(user("show"), *called("choir_fs_read", result), score=score).text == "It is a.png."
    )


def test_a_rule_for_a_tools_result_answers_it() -> None:
    score = {
        "rules": [
            {"when": {"tool_result_of": "choir.fs.read"}, "then": [{"say": "Read: {result}"}]},
            {"when": {"contains": "look"}, "then": [READ]},
        ]
    }
    messages = [user("look there")]
    assert answer(*messages, score=score).calls != ()
    assert answer(*messages, *called("choir_fs_read", "7"), score=score).text == "Read: 7"


def test_scenes_follow_the_users_messages() -> None:
    score = {"scenes": [[{"say": "One."}], [{"say": "Two."}]], "otherwise": [{"say": "The end."}]}
    talk = [user("a")]
    heard = []
    for _ in range(3):
        said = answer(*talk, score=score).text
        heard.append(said)
        talk += [{"role": "assistant", "content": said or ""}, user("b")]
    assert heard == ["One.", "Two.", "The end."]


def test_past_its_last_call_a_rule_reports() -> None:
    score = {"otherwise": [{"call": {"name": "choir.fs.read"}}]}
    said = answer(user("go"), *called("choir_fs_read", "42"), score=score)
    assert said.text == "The tool choir_fs_read answered: 42"


def test_a_missing_value_says_so_in_its_place() -> None:
    score = {"otherwise": [{"say": "It is {result.weather.sky} and {other braces}."}]}
    said = answer(user("go"), *called("choir_fs_read", {"weather": {}}), score=score)
    assert said.text == "It is <no result.weather.sky> and {other braces}."


def test_an_argument_that_is_one_placeholder_keeps_the_values_type() -> None:
    count = {"call": {"name": "count", "arguments": {"to": "{result.n}", "of": ["{user}"]}}}
    score = {"otherwise": [{"call": {"name": "number"}}, count]}
    (call,) = answer(user("go"), *called("number", {"n": 3}), score=score).calls
    assert call.arguments == {"to": 3, "of": ["go"]}
