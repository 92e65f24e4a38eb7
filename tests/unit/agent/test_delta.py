"""A memory delta applies within bounds, or changes nothing and says why."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.working_memory.memory_delta import (
    MAX_FACTS,
    MAX_REFERENCES,
    InvalidDelta,
    apply_delta,
    max_summary_bytes,
    parse_delta,
)
from choir_common.wire.events import Fact, ReferenceSummary

HASHES = ("aaaaaaaaaaaa1111", "bbbbbbbbbbbb2222", "bbbbbbbbbbbb3333")
ROOM = 4_000
BEFORE = ReferenceSummary(
    summary="They met.",
    facts=(Fact(key="user.name", value="Ada"), Fact(key="city", value="Bonn")),
    referenced_sessions=("ses_0",),
    referenced_events=("cccccccccccc",),
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
FACTS = st.fixed_dictionaries(
    {"key": st.text(max_size=250), "value": st.text(max_size=2_100)},
    optional={"source_event": st.sampled_from([*HASHES, "", "ffffff", "aaaaaa", "b"])},
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["append", "overwrite", "erase"]),
        "summary_update": st.text(max_size=5_000) | JSON,
        "add_references": st.lists(st.sampled_from([*HASHES, "aaaaaaaa", "x"])) | JSON,
        "remove_references": st.lists(st.sampled_from(["cccccccccccc", "x"])) | JSON,
        "add_fact": FACTS | st.lists(FACTS, max_size=5) | JSON,
        "remove_fact": st.lists(st.sampled_from(["city", "none"])) | JSON,
    },
)


def fold(answer: str, before: ReferenceSummary = BEFORE) -> ReferenceSummary:
    return apply_delta(before, parse_delta(answer), HASHES, ROOM)


def delta(**fields: object) -> str:
    return orjson.dumps({"memory_delta": fields}).decode()


@given(answer=JSON | DELTAS | st.builds(lambda inner: {"memory_delta": inner}, DELTAS))
def test_any_json_applies_within_bounds_or_is_refused_with_a_reason(answer: object) -> None:
    try:
        after = fold(orjson.dumps(answer).decode())
    except InvalidDelta as error:
        assert error.message
        return
    assert len(after.model_dump_json().encode()) <= ROOM
    assert len(after.facts) <= MAX_FACTS and len(after.referenced_events) <= MAX_REFERENCES
    assert len({fact.key for fact in after.facts}) == len(after.facts)
    shown = {"cccccccccccc", *(name[:12] for name in HASHES)}
    assert set(after.referenced_events) <= shown
    assert {fact.source_event for fact in after.facts} <= {"", *shown}
    assert after.referenced_sessions == BEFORE.referenced_sessions


@given(answer=st.text(max_size=300))
def test_any_words_are_read_or_refused(answer: str) -> None:
    try:
        fold(answer)
    except InvalidDelta as error:
        assert error.message


def test_append_adds_to_the_summary_and_overwrite_takes_its_place() -> None:
    assert fold(delta(summary_update="They left.")).summary == "They met.\nThey left."
    assert fold(delta(mode="overwrite", summary_update="All over.")).summary == "All over."


def test_a_model_may_say_that_the_summary_still_holds_as_it_is() -> None:
    assert fold(delta(mode="overwrite", summary_update=BEFORE.summary)) == BEFORE


def test_facts_are_added_replaced_and_removed() -> None:
    answer = delta(
        add_fact=[{"key": "city", "value": "Köln", "source_event": "aaaaaaaa"}],
        remove_fact={"key": "user.name"},
    )
    assert fold(answer).facts == (Fact(key="city", value="Köln", source_event="aaaaaaaaaaaa"),)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "Here it is:\n{}", "{}\nThat is all."])
def test_words_and_fences_around_the_object_are_passed_over(fence: str) -> None:
    answer = fence.replace("{}", delta(summary_update="They left."))
    assert fold(answer).summary.endswith("They left.")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I would rather not.", "JSON"),
        ("[1]", "object"),
        (delta(), "The delta is empty"),
        (delta(mode="overwrite"), "The delta is empty"),
        (delta(remove_fact="city"), "The delta is empty"),
        (delta(mode="erase", summary_update="x"), "mode"),
        (delta(summary_update=7), "summary_update"),
        (delta(summary_update="x", add_references=["ffffffffffff"]), "is not the hash"),
        (delta(summary_update="x", add_references=["bbbbbbbbbbbb"]), "is not the hash"),
        (delta(summary_update="x", add_references=["aaa"]), "is not the hash"),
        (delta(summary_update="x" * ROOM), "overwrite"),
        (delta(add_fact={"key": "", "value": "x"}), "add_fact"),
        (delta(add_fact="x"), "add_fact"),
    ],
)
def test_what_is_out_of_order_is_refused_in_words_a_model_can_act_on(answer: str, why: str) -> None:
    with pytest.raises(InvalidDelta, match=why):
        fold(answer)


def test_too_many_facts_are_refused() -> None:
    many = tuple(Fact(key=str(n), value="") for n in range(MAX_FACTS))
    with pytest.raises(InvalidDelta, match="remove some"):
        fold(
            delta(add_fact={"key": "new", "value": "x"}), BEFORE.model_copy(update={"facts": many})
        )


def test_a_small_model_gets_a_small_summary() -> None:
    assert (
        max_summary_bytes(4_000)
        < max_summary_bytes(32_000)
        < max_summary_bytes(128_000)
        == max_summary_bytes(2_000_000)
    )
