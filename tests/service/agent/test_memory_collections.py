"""`choir.memory.collections`: the model sees which documents people gave it."""

from collections.abc import AsyncIterator

import pytest

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.builtin.memory_collections import MemoryCollectionsTool
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.wire.memory_collections import Collections, CollectionView, FolderProgress
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from tests.service.agent.control_stand_in import ControlStandIn, run_control


@pytest.fixture
async def stand_in() -> AsyncIterator[ControlStandIn]:
    async with run_control("http://127.0.0.1:1/v1") as control:
        yield control


async def run(stand_in: ControlStandIn, *views: CollectionView) -> ToolOutput:
    def answer(request: HostToolRequest) -> HostToolResponse:
        assert request.tool_name == "choir.memory.collections"
        output = Collections(collections=views).model_dump(mode="json")
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    stand_in.host_tool = answer
    control = ControlClient(stand_in.boot())
    try:
        return await MemoryCollectionsTool(control).run(CallContext("call_1", "edge"), {})
    finally:
        await control.close()


async def test_names_sizes_and_what_is_not_read_yet_are_listed(stand_in: ControlStandIn) -> None:
    folder = FolderProgress(path="/x", state="reading", files=9, waiting=4, unreadable=0)
    house = CollectionView(name="house", documents=5, chunks=20, folder=folder)
    result = await run(stand_in, house, CollectionView(name="taxes", documents=1, chunks=2))
    assert result.output == {
        "collections": [
            {"name": "house", "documents": 5, "not_read_yet": 4},
            {"name": "taxes", "documents": 1},
        ]
    }
    assert result.summary == "2 collections"


async def test_an_agent_without_collections_is_told_so(stand_in: ControlStandIn) -> None:
    assert (await run(stand_in)).output == {"collections": [], "note": "There are no collections."}
