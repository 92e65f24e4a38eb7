"""What control relies on when it hands sessions on, by the real service and by its stand-in."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsSessionMemoryClient, SessionMemoryClient
from choir_common.errors import InvalidRequest, NotFound
from choir_common.wire.memory_sessions import EraseSession, RecordUnits, SessionUnit
from choir_testing.fake_memory_sessions import FakeSessionMemory
from tests.service.memory.servers import MemoryProcess
from tests.support.bus import BUS_KEY
from tests.support.sessions import BEGAN, LogBuilder, conversation_log


@pytest.fixture(params=["service", "fake"])
async def sessions(
    request: pytest.FixtureRequest, service: MemoryProcess
) -> AsyncIterator[SessionMemoryClient]:
    if request.param == "fake":
        yield FakeSessionMemory()
        return
    async with Bus(service.nats_url, BUS_KEY, "contract") as bus:
        yield NatsSessionMemoryClient(bus)


def make_talk() -> LogBuilder:
    script = conversation_log("s1", "one", "two")
    script.agent_id = f"a{uuid4().hex[:12]}"
    return script


async def test_pages_bring_a_session_to_its_end_and_may_come_twice(
    sessions: SessionMemoryClient,
) -> None:
    script = make_talk()
    for _ in range(2):
        answer = await sessions.archive(script.page(0, 3))
        assert (answer.through_rev, answer.ended) == (3, False)
    for _ in range(2):
        answer = await sessions.archive(script.page(3, 6, 10))
        assert (answer.through_rev, answer.ended) == (6, True)


async def test_an_empty_page_may_tell_of_the_end(sessions: SessionMemoryClient) -> None:
    script = make_talk()
    await sessions.archive(script.page())
    answer = await sessions.archive(script.page(6, 6, 10))
    assert (answer.through_rev, answer.ended) == (6, True)


async def test_a_gap_is_answered_by_where_memory_is(sessions: SessionMemoryClient) -> None:
    script = make_talk()
    await sessions.archive(script.page(0, 2))
    answer = await sessions.archive(script.page(4, 6, 10))
    assert (answer.through_rev, answer.ended) == (2, False)


async def test_events_that_do_not_follow_each_other_are_refused(
    sessions: SessionMemoryClient,
) -> None:
    page = make_talk().page()
    events = (page.events[0], page.events[2])
    with pytest.raises(InvalidRequest):
        await sessions.archive(page.model_copy(update={"events": events}))


async def test_units_are_recorded_once_and_erased_for_good(sessions: SessionMemoryClient) -> None:
    agent = f"a{uuid4().hex[:12]}"
    unit = SessionUnit(id="u1", text="An otter.", at=BEGAN, position=0)
    given = RecordUnits(agent_id=agent, session_id="s1", units=(unit,))
    first = await sessions.record(given)
    again = await sessions.record(given)
    assert (first.written, again.written) == (1, 0)
    assert first.document_ids == again.document_ids
    asked = EraseSession(agent_id=agent, session_id="s1")
    assert (await sessions.erase(asked)).documents == 1
    assert (await sessions.erase(asked)).documents == 0
    with pytest.raises(NotFound):
        await sessions.record(given)
    with pytest.raises(NotFound):
        await sessions.erase(EraseSession(agent_id=agent, session_id="never"))
