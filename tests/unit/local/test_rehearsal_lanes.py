"""The rehearsal model knows who asks, and orders about core jobs are carried out in their lanes."""

import json
from collections.abc import Mapping

import pytest

from choir_common.wire.memory_recall import COLLECTIONS_HEADING, REMINDERS_HEADING
from choir_common.wire.prompt_marks import REPORT_HEADING
from choir_local.rehearsal.answers import ScriptedAnswer, choose_answer
from choir_local.rehearsal.prefix import PrefixMeter
from choir_local.rehearsal.score import Score, parse_score
from choir_local.rehearsal.turn import ChatRequest, Lane, lane_of, read_turn

EDGE = "You are the edge lane of a personal agent."
CORE = "You are a core job of a personal agent."
FOLD = "Fold the following events of the edge lane into its summary."
SUM_UP = "Sum up the session that ends here."
JOB_TOOLS = tuple(f"choir_core_{verb}" for verb in ("spawn", "inject", "cancel", "list", "report"))


def message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": text}


def called(name: str, status: str = "success", **output: object) -> list[dict[str, object]]:
    calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]
    result = json.dumps({"status": status, "output": output})
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]


def answer(
    system: str,
    *messages: Mapping[str, object],
    score: Mapping[str, object] | None = None,
    tools: tuple[str, ...] = JOB_TOOLS,
) -> ScriptedAnswer:
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    body = {"model": "r", "messages": [message("system", system), *messages], "tools": offered}
    asked = ChatRequest.model_validate_json(json.dumps(body))
    return choose_answer(
        read_turn(asked), parse_score(json.dumps(score)) if score else Score(), "Hello."
    )


@pytest.mark.parametrize(
    ("line", "lane"),
    [(EDGE, "edge"), (CORE, "core"), (FOLD, "compaction"), (SUM_UP, "summary"), ("Hi", None)],
)
def test_who_asks_is_read_from_the_first_line(line: str, lane: Lane | None) -> None:
    assert lane_of(f"{line}\n\nYou are the edge lane, a core job, and fold sessions.") == lane


def test_jobs_are_started_together_and_their_own_directives_are_left_to_them() -> None:
    order = message("user", "#spawn one: #tools=3 #delay=900 count\n#spawn two: #hang")
    given = answer(EDGE, order)
    assert given.delay_ms == 0
    assert not given.hang
    assert [(call.name, call.arguments) for call in given.calls] == [
        ("choir_core_spawn", {"job_name": "one", "task_spec": "#tools=3 #delay=900 count"}),
        ("choir_core_spawn", {"job_name": "two", "task_spec": "#hang"}),
    ]


def test_what_became_of_an_order_is_told() -> None:
    order = message("user", "#cancel one")
    assert answer(EDGE, order).calls[0].arguments == {"job_name": "one"}
    done = answer(EDGE, order, *called("choir_core_cancel"))
    assert done.text == "Core job one: cancelled."
    refused = answer(EDGE, order, *called("choir_core_cancel", "refused", message="no such job"))
    assert refused.text == "Core job one: not cancelled (no such job)."


def test_a_core_job_follows_its_briefing_and_reports_first() -> None:
    briefing = message("user", "Task: #need the colour #tools=1")
    first = answer(CORE, briefing)
    assert first.calls[0].arguments["kind"] == "need_info"
    told = message("user", "red")
    second = answer(CORE, briefing, *called("choir_core_report"), told)
    assert second.calls[0].name != "choir_core_report" or second.calls[0].arguments == {}
    last = answer(
        CORE, briefing, *called("choir_core_report"), told, *called("choir_fs_read", text="x")
    )
    assert last.calls == ()
    assert last.text is not None
    assert "2 tool calls" in last.text


def test_a_job_that_is_told_to_hang_hangs_only_once_its_tools_are_used() -> None:
    briefing = message("user", "#hang #tools=1")
    assert not answer(CORE, briefing).hang
    assert answer(CORE, briefing, *called("choir_fs_read")).hang


def test_what_the_agent_has_to_report_is_passed_on_and_orders_nothing() -> None:
    talk = (message("user", "#tools=2 go"), message("assistant", "done"))
    brief = f"{REPORT_HEADING}\n\n> The core job 'x' is done.\n>\n> #tools=3"
    report = answer(EDGE, *talk, message("user", brief), message("system", "Jobs that run: y"))
    assert report.calls == ()
    assert report.text == "The core job 'x' is done.\n\n#tools=3"


def test_what_corrects_or_replies_is_a_message_like_others_and_orders_nothing_twice() -> None:
    was = "[Choir] The user corrected an earlier message. It said:\n> #spawn one: #tools=1"
    corrected = answer(EDGE, message("user", f"{was}\n\n#spawn two: #hang"))
    assert [call.arguments["job_name"] for call in corrected.calls] == ["two"]
    talk = (message("user", "hello"), message("assistant", "Hello!"))
    replied = "[Choir] The user replies to this message:\n> Hello!\n\nGood day to you"
    assert 'Good day to you"' in (answer(EDGE, *talk, message("user", replied)).text or "")


def test_a_note_at_the_end_of_a_prompt_begins_no_new_turn() -> None:
    note = message("system", "You are in the skill tea, step pour.")
    said = answer(EDGE, message("user", "#tools=1 go"), *called("choir_core_list"), note)
    assert said.calls == ()


def test_a_core_job_hands_in_what_fits_the_schema_it_was_given() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "pages": {"type": "integer", "minimum": 3}},
        "required": ["title", "pages"],
    }
    task = f"# Task: x\n\nOne JSON value that fits this JSON Schema:\n{json.dumps(schema)}\n\nMore."
    text = answer(CORE, message("user", task)).text
    assert json.loads(text or "") == {"title": "rehearsal", "pages": 3}


def test_a_compaction_gets_a_delta_and_a_summary_its_parts() -> None:
    events = message("user", "#tools=3 /tool choir.exec {} " + "long " * 1000)
    delta = json.loads(answer(FOLD, events).text or "")["memory_delta"]
    assert delta["mode"] == "overwrite"
    assert len(delta["summary_update"]) < 500
    summary = json.loads(answer(SUM_UP, events).text or "")
    assert summary["topics"][0]["text"] == summary["summary"]


def test_a_rule_waits_for_its_lane_and_none_disturbs_the_memory() -> None:
    score = {
        "rules": [
            {"when": {"lane": "core", "contains": "tea"}, "then": [{"hang": True}]},
            {"when": {"lane": "compaction", "contains": "bad"}, "then": [{"say": "no JSON"}]},
            {"when": {"contains": "tea"}, "then": [{"say": "for edge"}]},
        ]
    }
    tea = message("user", "tea")
    assert answer(CORE, tea, score=score).hang
    assert answer(EDGE, tea, score=score).text == "for edge"
    assert "memory_delta" in (answer(FOLD, tea, score=score).text or "")
    assert answer(FOLD, message("user", "bad tea"), score=score).text == "no JSON"


def test_a_prompt_counts_as_cached_as_far_as_it_begins_like_an_earlier_one() -> None:
    prefixes = PrefixMeter()
    texts = ["a" * 1000, "b" * 1000, "c" * 1000]

    def body(count: int) -> bytes:
        return json.dumps({"messages": [message("user", text) for text in texts[:count]]}).encode()

    size, cached = prefixes.measure(body(1))
    assert cached == 0
    prefixes.measure(body(3))
    longer, cached = prefixes.measure(body(2))
    assert longer > size
    assert longer - cached <= 1


@pytest.mark.parametrize("remark", [REMINDERS_HEADING, COLLECTIONS_HEADING])
def test_what_memory_adds_to_a_message_is_not_the_users_text(remark: str) -> None:
    text = f"Which pressure?\n\n{remark}: manuals"
    request = ChatRequest.model_validate(
        {"model": "rehearsal", "messages": [message("system", EDGE), message("user", text)]}
    )
    turn = read_turn(request)
    assert turn.user_text == "Which pressure?"
    assert "manuals" in turn.system_text
