"""What a human sees of a request: all that the digest covers, as a difference, and nothing that hides."""

import json

import pytest

from choir_common.approvals import LineKind, escape_line, request_lines, request_summary
from choir_common.i18n import translate
from choir_common.wire.model import JsonObject
from choir_control.approvals.texts import (
    PAGE_CHARACTERS,
    format_page,
    format_request,
    split_pages,
    truncate_lines,
)

DIFF = """diff --git a/README.md b/README.md
index 1..2 100644
--- a/README.md
+++ b/README.md
@@ -1 +1 @@
-one
+two
"""


def texts(kind: str, payload: JsonObject, basis: JsonObject) -> list[str]:
    return [line.text for line in request_lines(kind, payload, basis)]


def test_a_setting_is_shown_as_what_it_was_and_what_it_would_be() -> None:
    change: JsonObject = {"path": ["budgets", "max_core_jobs"], "before": 5, "after": 3}
    payload: JsonObject = {"patch": {"budgets": {"max_core_jobs": 3}}, "reason": "fewer"}
    lines = request_lines("config_change", payload, {"changes": [change], "version": 7})
    assert ("old", "-5") in [(line.mark, line.text) for line in lines]
    assert ("new", "+3") in [(line.mark, line.text) for line in lines]
    assert texts("config_change", payload, {"changes": [change], "version": 7}) == [
        "reason: fewer",
        "config.json: budgets.max_core_jobs",
        "-5",
        "+3",
        "based on",
        "version: 7",
    ]
    assert request_summary("config_change", payload) == "the setting budgets.max_core_jobs"


def test_the_reason_for_a_question_stands_above_the_call() -> None:
    call: JsonObject = {"tool": "choir.exec", "input": {}}
    assert texts("call", call, {"why": "new host\n+ call nothing"}) == [
        "why: new host",
        "  + call nothing",
        "call choir.exec",
        "+{}",
    ]


def test_a_merge_is_shown_as_its_difference_with_the_lines_marked() -> None:
    payload: JsonObject = {"branch": "proposal/s/new", "commit": "c" * 40}
    lines = request_lines("repo_change", payload, {"diff": DIFF, "diffstat": " README.md | 2 +-\n"})
    marks = {line.text: line.mark for line in lines}
    assert marks["-one"] is LineKind.OLD and marks["+two"] is LineKind.NEW
    assert marks["@@ -1 +1 @@"] is LineKind.PLACE and marks["--- a/README.md"] is LineKind.HEAD
    assert f"commit: {'c' * 40}" in marks and "branch: proposal/s/new" in marks


@pytest.mark.parametrize("kind", ["config_change", "skill", "tool", "repo_change", "call", "else"])
def test_nothing_that_the_digest_covers_is_left_out(kind: str) -> None:
    payload: JsonObject = {
        "spec": {"name": "a-spec"}, "manifest": {"llm": {"name": "a-manifest"}}, "patch": {"a-patch": 1},
        "branch": "a-branch", "tool": "a-tool", "input": {"deep": ["an-input"]},
        "strange": {"x": "a-stranger"},
    }  # fmt: skip
    basis: JsonObject = {"tree": "a-tree", "config": "0123456789abcdef", "extra": ["an-extra"]}
    whole = "\n".join(texts(kind, payload, basis))
    for word in ("a-spec", "a-manifest", "a-patch", "a-branch", "a-tool", "an-input", "a-stranger"):
        assert word in whole, word
    assert "a-tree" in whole and "an-extra" in whole and "0123456789ab" in whole


def test_files_stand_in_place_of_what_they_are_made_of() -> None:
    payload: JsonObject = {"spec": {"name": "wash"}, "reason": "daily"}
    basis: JsonObject = {"files": {"skills/wash.json": '{\n  "name": "wash"\n}\n'}, "ref": "main"}
    assert texts("skill", payload, basis) == [
        "reason: daily",
        "new file skills/wash.json",
        "+{",
        '+  "name": "wash"',
        "+}",
        "based on",
        "ref: main",
    ]


def test_what_an_agent_wrote_cannot_move_a_cursor_turn_a_line_or_begin_one() -> None:
    trick = "\x1b[2J\r\u202e\u2066\u200b\x00\x85\u2028 safe"
    payload: JsonObject = {"tool": trick, "input": {trick: [trick]}, "reason": f"{trick}\n-gone"}
    for kind in ("call", "else"):
        whole = "\n".join(texts(kind, payload, {"diff": trick}))
        assert not set(trick[:-5]) & set(whole.replace("\n", "")) - set("[2J")
        assert "<U+001B>" in whole and "<U+202E>" in whole
        # a line of the reason does not pass for one of the difference
        assert "\n-gone" not in whole and "\n  -gone" in whole
    assert escape_line("Grüße, мир\t漢字") == "Grüße, мир\t漢字"


def test_a_conversation_is_shown_the_beginning_how_much_is_left_and_where_to_see_it() -> None:
    payload: JsonObject = {"tool": "t", "input": json.loads(json.dumps({"rows": ["x" * 50] * 500}))}
    notice = format_request("main", "appr_1", "call", payload, {})
    assert notice.text.startswith("main requests the use of t.") and len(notice.text) < 2_000
    assert "more lines" in notice.text and "choirctl approval show appr_1" in notice.text
    assert "/approve appr_1" in notice.text and "/reject appr_1" in notice.text
    assert notice.pages > 1 and "once all pages were opened" in notice.text
    short = format_request("main", "appr_1", "call", {"tool": "t", "input": {}}, {})
    assert "more lines" not in short.text and short.pages == 0
    long = request_lines("call", {"tool": "t", "input": {"a": "y" * 5_000}}, {})
    assert "(a long line)" in truncate_lines(long, 100, 100_000)


@pytest.mark.parametrize("count", [1, 23, 24, 200])
@pytest.mark.parametrize("width", [5, 401, 9_000])
def test_the_pages_of_a_request_leave_nothing_out(count: int, width: int) -> None:
    payload: JsonObject = {"tool": "t", "input": {f"k{n}": "y" * width for n in range(count)}}
    lines = request_lines("call", payload, {})
    total = len(split_pages(lines))
    # each page costs a rendering of the whole request, so only a sample of many pages
    for number in {*range(1, total, max(total // 20, 1)), total}:
        page = format_page("main", "a", "call", payload, {}, number)
        assert len(page) < PAGE_CHARACTERS + 400
        assert f"Page {number} of {total}." in page
    shown = "".join(split_pages(lines)).replace("\n", "")
    assert shown == "".join(line.text for line in lines)
    is_whole = "more lines" not in (text := format_request("main", "a", "call", payload, {}).text)
    assert (format_request("main", "a", "call", payload, {}).pages == 0) == (
        is_whole and "(a long line)" not in text
    )


@pytest.mark.parametrize("kind", ["config_change", "skill", "repo_change", "call", "mcp_question"])
def test_each_language_shows_the_same_lines_and_pages(kind: str) -> None:
    payload: JsonObject = {"tool": "t", "input": {f"k{n}": "ja oder yes" for n in range(200)}}
    pages = split_pages(request_lines(kind, payload, {}))
    for number, page in enumerate(pages, start=1):
        shown = format_page("main", "appr_1", kind, payload, {}, number)
        german = translate(shown, "de")
        assert page in shown and page in german and shown != german
        assert german.startswith("main bittet um Freigabe: ")
    notice = format_request("main", "appr_1", kind, payload, {})
    first = "\n".join(line.text for line in request_lines(kind, payload, {})[:5])
    assert first in notice.text and first in translate(notice.text, "de")
    assert notice.pages == len(pages)


@pytest.mark.parametrize("hidden", ["\u200b", "\ufe0f", "\u3164", "\u00a0", "p\u0430y"])
def test_a_request_with_characters_that_deceive_is_opened_before_it_is_approved(
    hidden: str,
) -> None:
    call: JsonObject = {"tool": "t", "input": {"text": f"see {hidden} here"}}
    notice = format_request("main", "appr_1", "call", call, {})
    assert notice.pages == 1 and "spelled out" in notice.text
    assert (
        format_request("main", "a", "call", {"tool": "t", "input": {"text": "мир Grüße"}}, {}).pages
        == 0
    )
