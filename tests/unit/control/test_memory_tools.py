"""The memory tools: secrets are masked, and a conversation without recall or incognito reads nothing."""

import dataclasses
from typing import cast

import pytest

from choir_common.errors import Forbidden, InvalidRequest
from choir_common.redactor import MASK, Redactor
from choir_common.wire.config import Config
from choir_common.wire.memory_modes import MemoryMode
from choir_common.wire.memory_recall import ReadHints, ReadReminders, Reminders, ToolHints
from choir_common.wire.memory_search import (
    MemoryHits,
    MemoryQuery,
    MemoryReader,
    MemoryUpsert,
    MemoryWritten,
)
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease
from choir_testing.fake_memory import FakeMemory
from tests.support.fixed_configuration import FixedConfiguration

SECRET = "sk-very-secret-1234"
TEA = {"operation": "insert", "text": "Ada likes green tea.", "key": "user.tea"}
ASKED = {"store": "knowledge", "query": "tea", "mode": "text"}


def a_configuration(
    *, recall: bool = True, query_expansion: bool = False, between: str | None = None
) -> ConfigService:
    agent = {
        "defaults": {"workspace": "main", "llm": "default", "dm": "console"},
        "recall": recall,
        "memory_between_people": between,
    }
    config = Config.model_validate(
        {
            "agents": {"main": agent},
            "workspaces": {"main": {"path": "/w"}},
            "memory": {"query_expansion": query_expansion},
        }
    )
    return cast("ConfigService", FixedConfiguration(config))


def a_lease(mode: MemoryMode = "local", recall: bool | None = None) -> Lease:
    bindings = ResourceBindings(workspace="main", llm="default", dm="console")
    return Lease("ses_1", "main", 1, b"", bindings, memory_mode=mode, recall=recall)


async def test_a_secret_in_a_write_is_masked_before_it_leaves_control() -> None:
    redactor = Redactor()
    redactor.add_secrets((SECRET,))
    bindings = ResourceBindings(workspace="main", llm="default", dm="console")
    lease = Lease("ses_1", "main", 1, b"", bindings)
    tools = MemoryTools(FakeMemory(), redactor, a_configuration())
    write = {
        "operation": "insert",
        "text": f"The walnut key is {SECRET}.",
        "key": f"keys.{SECRET}",
        "metadata": {SECRET: ["deep", {"in": f"a list {SECRET}"}]},
    }
    await tools.upsert(lease, "call-1", write)
    found = await tools.query(
        lease, "call-2", {"store": "knowledge", "query": f"walnut {SECRET}", "mode": "text"}
    )
    assert isinstance(found, MemoryHits)
    (hit,) = found.hits
    assert SECRET not in hit.model_dump_json()
    assert hit.text == f"The walnut key is {MASK}." and hit.key == f"keys.{MASK}"
    assert hit.metadata == {MASK: ["deep", {"in": f"a list {MASK}"}]}


async def test_what_is_asked_of_a_failure_holds_no_secret_either() -> None:
    asked: list[ReadHints] = []

    class Listening(FakeMemory):
        async def hints(self, wanted: ReadHints) -> ToolHints:
            asked.append(wanted)
            return await super().hints(wanted)

    redactor = Redactor()
    redactor.add_secrets((SECRET,))
    lease = Lease(
        "ses_1", "main", 1, b"", ResourceBindings(workspace="main", llm="default", dm="console")
    )
    given = {"tool": "choir.exec", "said": f"exit code 1: bad key {SECRET}"}
    answer = await MemoryTools(Listening(), redactor, a_configuration()).hints(
        lease, "call-1", given
    )
    assert answer == ToolHints(hints=())
    (wanted,) = asked
    assert (wanted.agent_id, wanted.said) == ("main", f"exit code 1: bad key {MASK}")


async def test_an_incognito_session_neither_writes_nor_reads_memory() -> None:
    tools = MemoryTools(FakeMemory(), Redactor(), a_configuration())
    await tools.upsert(a_lease(), "call-1", {**TEA})
    private = a_lease("incognito", recall=True)
    with pytest.raises(Forbidden, match="incognito"):
        await tools.upsert(private, "call-2", {**TEA, "key": "user.secret"})
    with pytest.raises(Forbidden, match="incognito"):
        await tools.query(private, "call-3", {**ASKED})
    assert await tools.remind(private, "call-4", {"text": "tea"}) == Reminders(reminders=())
    failed = {"tool": "choir.exec", "said": "exit code 1"}
    assert await tools.hints(private, "call-5", failed) == ToolHints(hints=())
    found = await tools.query(a_lease("synced"), "call-6", {**ASKED})
    assert isinstance(found, MemoryHits) and [hit.key for hit in found.hits] == ["user.tea"]


@pytest.mark.parametrize(
    ("configured", "setting", "recalls"),
    [
        (True, None, True),
        (False, None, False),
        (True, False, False),
        (False, True, True),
    ],
)
async def test_recall_is_that_of_the_conversation_or_else_of_the_agent(
    configured: bool, setting: bool | None, recalls: bool
) -> None:
    tools = MemoryTools(FakeMemory(), Redactor(), a_configuration(recall=configured))
    lease = a_lease(recall=setting)
    # sessions are remembered in any case
    await tools.upsert(lease, "call-1", {**TEA})
    reminders = await tools.remind(lease, "call-2", {"text": "tea"})
    assert isinstance(reminders, Reminders) and bool(reminders.reminders) is recalls
    if recalls:
        await tools.query(lease, "call-3", {**ASKED})
    else:
        with pytest.raises(Forbidden, match="Recall is off"):
            await tools.query(lease, "call-3", {**ASKED})


@pytest.mark.parametrize("expansion", [True, False])
async def test_the_configuration_decides_whether_a_model_expands_an_agents_search(
    expansion: bool,
) -> None:
    queries: list[MemoryQuery] = []

    class RecordingMemory(FakeMemory):
        async def query(self, query: MemoryQuery) -> MemoryHits:
            queries.append(query)
            return await super().query(query)

    configuration = a_configuration(query_expansion=expansion)
    tools = MemoryTools(RecordingMemory(), Redactor(), configuration)
    await tools.query(a_lease(), "call-1", {**ASKED})
    assert [query.expand for query in queries] == [expansion]
    with pytest.raises(InvalidRequest, match="expand must not be set"):
        await tools.query(a_lease(), "call-2", {**ASKED, "expand": True})


async def test_the_conversation_of_a_call_decides_whose_memory_it_reads() -> None:
    readers: list[MemoryReader | None] = []

    class RecordingMemory(FakeMemory):
        async def query(self, query: MemoryQuery) -> MemoryHits:
            readers.append(query.reader)
            return await super().query(query)

        async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
            assert write.conversation == "phone"
            readers.append(write.reader)
            return await super().upsert(write)

        async def hints(self, request: ReadHints) -> ToolHints:
            readers.append(request.reader)
            return ToolHints(hints=())

        async def remind(self, request: ReadReminders) -> Reminders:
            readers.append(request.reader)
            return Reminders(reminders=())

    tools = MemoryTools(RecordingMemory(), Redactor(), a_configuration(between="separate"))
    lease = dataclasses.replace(a_lease(), further_dms=("phone",)).in_conversation("phone")
    await tools.upsert(lease, "call-1", {**TEA})
    await tools.query(lease, "call-2", {**ASKED})
    await tools.hints(lease, "call-3", {"tool": "choir.shell.run", "said": "No such file."})
    await tools.remind(lease, "call-4", {"text": "tea?"})
    assert readers == [MemoryReader(conversations=("phone",))] * 4
    everybody = {"conversations": ["console", "phone"]}
    for name, value in (("reader", everybody), ("reader", None), ("conversation", "console")):
        with pytest.raises(InvalidRequest, match=f"{name} must not be set"):
            await tools.upsert(lease, "call-5", {**TEA, name: value})
    with pytest.raises(InvalidRequest, match="reader must not be set"):
        await tools.query(lease, "call-6", {**ASKED, "reader": everybody})
