"""Searching the session's own log: all of it, and nothing a lane may not read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.working_memory.log_search import SearchScope, excerpt, search_hash, search_words
from choir_common.wire.events import (
    CoreStarted,
    CoreStopped,
    Exposure,
    InjectedInstruction,
    ModelOutput,
    ProviderFields,
    ToolCall,
    ToolResultCommitted,
    UserMessageStarted,
)
from tests.unit.agent.told_session import TOOL, ToldSession

EDGE = SearchScope()
CORE = SearchScope("core:fix")


def revs(
    session: ToldSession, query: str, reader: SearchScope = EDGE, limit: int = 10
) -> list[int]:
    return [hit.event.rev for hit in search_words(session.log.entries, query, limit, reader)]


def test_the_event_with_most_of_the_words_comes_first_and_among_equals_the_newest() -> None:
    session = ToldSession()
    session.ask(1, "a blue house")
    session.ask(2, "a blue boat")
    session.ask(3, "a boat")
    assert revs(session, "BLUE boat") == [2, 3, 1]
    assert revs(session, "blue", limit=1) == [2]


def test_what_rolled_off_the_window_is_found() -> None:
    session = ToldSession()
    session.ask(1, "the treasure is under the oak")
    for number in range(2, 9):
        through = session.turn(number)
    session.compact("edge", through - 4, "they talked")
    assert b"treasure" not in b"".join(session.edge().messages)
    assert revs(session, "treasure") == [1]


def test_what_a_provider_sent_beside_the_words_is_not_searched() -> None:
    session = ToldSession()
    session.ask(1, "go on")
    fields = ProviderFields(origin="m at x", message={"reasoning_content": "the treasure"})
    output = ModelOutput(
        turn_id="t1", text="done", model="m", finish_reason="stop", provider_fields=fields
    )
    session.append("edge", output)
    assert revs(session, "treasure") == []
    assert revs(session, "done") == [2]


def test_an_event_is_found_by_the_hash_a_summary_names() -> None:
    session = ToldSession()
    session.turn(1)
    wanted = session.log.entries[0].event()
    found = search_hash(session.log.entries, f" {wanted.hash[:12].upper()}", 5, EDGE)
    assert [hit.event for hit in found] == [wanted]
    assert search_hash(session.log.entries, wanted.hash[:5], 5, EDGE) == []


def test_a_core_job_never_finds_the_users_own_words() -> None:
    session = ToldSession()
    session.ask(1, "secret wish")
    words = InjectedInstruction(target="edge", turn_id="t1", text="secret too", by="user")
    session.append("edge", words)
    session.use("job_fix", "c1", "core:fix", output={"text": "a secret of the file"})
    assert revs(session, "secret") == [4, 2, 1]
    assert revs(session, "secret", CORE) == [4]
    assert search_hash(session.log.entries, session.log.entries[0].hash, 5, CORE) == []


@pytest.mark.parametrize(
    ("exposure", "masked", "edge", "core"),
    [
        ("both", False, True, True),
        ("edge", False, True, False),
        ("core", False, False, True),
        ("none", False, False, False),
        ("both", True, False, False),
    ],
)
def test_an_output_is_found_only_by_lanes_whose_prompts_may_show_it(
    exposure: Exposure, masked: bool, edge: bool, core: bool
) -> None:
    session = ToldSession()
    result = ToolResultCommitted(
        turn_id="t",
        call_id="c",
        tool=TOOL,
        status="success",
        output={"text": "hidden", "summary": "nine lines"},
        exposure=exposure,
        masked=masked,
    )
    session.append("edge", result)
    assert (revs(session, "hidden") == [1]) is edge
    assert (revs(session, "hidden", CORE) == [1]) is core
    if masked:
        assert revs(session, "nine lines") == [1]


def test_a_question_does_not_find_itself_nor_what_an_earlier_one_found() -> None:
    session = ToldSession()
    query = ToolCall(call_id="q1", tool="choir.memory.query", arguments='{"query":"treasure"}')
    session.think("t1", "", calls=(query,))
    found = ToolResultCommitted(
        turn_id="t1",
        call_id="q0",
        tool="choir.memory.query",
        status="success",
        output={"hits": ["treasure"]},
    )
    session.append("edge", found)
    assert revs(session, "treasure", SearchScope("edge", "q1")) == []


def test_names_of_fields_and_ids_are_no_words() -> None:
    session = ToldSession()
    session.append("core:fix", CoreStopped(job_id="j1", job_name="fix", outcome="completed"))
    session.ask(1)
    assert revs(session, "payload turn_id duration_ms t1 j1 hash_prev") == []
    assert revs(session, "completed") == [1]


@given(text=st.text(max_size=80), query=st.text(max_size=20))
def test_any_text_can_be_searched_for_any_words(text: str, query: str) -> None:
    session = ToldSession()
    session.ask(1, text)
    hits = search_words(session.log.entries, query, 5, EDGE)
    for hit in hits:
        assert any(word in hit.text.lower() for word in query.lower().split())
        assert len(excerpt(hit.text, query)) <= 602


@given(word=st.text(alphabet='aZé"\\/ß\n\t中', min_size=1, max_size=8))
def test_a_word_that_was_said_is_found(word: str) -> None:
    session = ToldSession()
    session.ask(1, f"before {word} after")
    if word.split():
        assert revs(session, word.split()[0]) == [1]


def test_each_conversation_finds_its_own_events_and_those_of_its_jobs_only() -> None:
    session, desk = ToldSession(), "edge:desk"
    session.ask(1, "the treasure of the home")
    session.start_job("home")
    message = UserMessageStarted(turn_id="d1", inbox_id="m1", dm="desk", text="the treasure there")
    session.append(desk, message)
    started = CoreStarted(
        job_id="j", job_name="there", call_id="c", dm="desk", task_spec="find the treasure"
    )
    session.append(desk, started)
    for job_id, name in (("job_home", "home"), ("j", "there"), ("forgotten", "forgotten")):
        result = {"text": f"the treasure of {name}"}
        stopped = CoreStopped(job_id=job_id, job_name=name, outcome="completed", result=result)
        session.append(f"core:{name}", stopped)

    def found_by(lane: str) -> list[int]:
        scope = SearchScope.of(session.state, lane, "", entries=session.log.entries)
        return sorted(revs(session, "treasure", scope))

    assert (found_by("edge"), found_by(desk)) == ([1, 5], [3, 4, 6])
    assert found_by("edge:phone") == []
    # control knows who started the job whose start is no longer in memory
    entries = tuple(session.log.entries)
    recent, older = entries[:6], entries[6:]
    scope = SearchScope.of(session.state, desk, "", entries=(*recent, *older), selection=older)
    assert sorted(revs(session, "treasure", scope)) == [3, 4, 6, 7]
