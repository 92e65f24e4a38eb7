"""`choir.memory.query` without words: a session is read in order, as the tool's description says."""

from collections.abc import AsyncIterator

import pytest

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.builtin.memory_query import MemoryQueryTool
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.wire.memory_search import MemoryHits
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.unit.agent.told_session import ToldSession

CONTEXT = CallContext("call_1", "edge")


@pytest.fixture
async def stand_in() -> AsyncIterator[ControlStandIn]:
    async with run_control("http://127.0.0.1:1/v1") as control:
        control.host_tool = nothing_found
        yield control


def nothing_found(request: HostToolRequest) -> HostToolResponse:
    hits = MemoryHits(hits=(), arms_used=())
    return HostToolResponse(
        call_id=request.call_id, status="success", output=hits.model_dump(mode="json")
    )


def told(count: int) -> ToldSession:
    session = ToldSession()
    for number in range(1, count + 1):
        session.ask(number, f"words {number}")
    return session


async def run(stand_in: ControlStandIn, session: ToldSession, **arguments: object) -> JsonObject:
    """Use the tool as the arbiter does: arguments that do not fit its schema are refused."""
    control = ControlClient(stand_in.boot())
    tool = MemoryQueryTool(control, session.log)
    given: JsonObject = dict(arguments)  # type: ignore[arg-type]
    assert ToolRegistry([tool]).faults(tool.manifest.name, given) == []
    try:
        return (await tool.run(CONTEXT, given)).output
    finally:
        await control.close()


def texts(result: JsonObject) -> list[object]:
    hits = result["hits"]
    assert isinstance(hits, list)
    return [str(hit["text"]).strip() for hit in hits if isinstance(hit, dict)]


async def test_a_past_session_is_read_without_a_query_and_without_naming_the_mode(
    stand_in: ControlStandIn,
) -> None:
    await run(stand_in, told(0), store="session", session_id="ses_1", after=4)
    [asked] = stand_in.host_calls
    assert asked.input == {
        "store": "session",
        "session_id": "ses_1",
        "after": 4,
        "mode": "session_detail",
    }


@pytest.mark.parametrize("given", [{"store": "session"}, {"store": "knowledge", "query": " "}])
async def test_without_query_and_session_it_is_said_what_is_missing(
    stand_in: ControlStandIn, given: JsonObject
) -> None:
    with pytest.raises(ToolFailed, match="session_id"):
        await run(stand_in, told(0), **given)
    assert not stand_in.host_calls


@pytest.mark.parametrize("limit", [-1, 0, 51, 10**9])
async def test_this_session_is_read_within_the_limits_of_memory(
    stand_in: ControlStandIn, limit: int
) -> None:
    for more in ({}, {"query": "words"}):
        with pytest.raises(ToolFailed, match="1 to 50"):
            await run(stand_in, told(2), store="working", limit=limit, **more)


async def test_summaries_are_listed_by_grain_and_age_without_a_query(
    stand_in: ControlStandIn,
) -> None:
    wanted: JsonObject = {"store": "session", "grain": "week", "max_days_ago": 90}
    await run(stand_in, told(0), **wanted)
    [asked] = stand_in.host_calls
    assert asked.input == wanted


async def test_this_session_is_read_from_its_newest_part_and_page_by_page(
    stand_in: ControlStandIn,
) -> None:
    session = told(5)
    newest = await run(stand_in, session, store="working", limit=2)
    assert texts(newest) == ["words 4", "words 5"]
    first = await run(stand_in, session, store="working", limit=3, after=0)
    assert texts(first) == ["words 1", "words 2", "words 3"]
    rest = await run(stand_in, session, store="working", limit=3, after=first["more_after"])
    assert texts(rest) == ["words 4", "words 5"]
    assert "more_after" not in rest
