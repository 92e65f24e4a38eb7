"""What an agent keeps in its memory holds no secret's value, in whatever part of the write it stands."""

from choir_common.redactor import MASK, Redactor
from choir_common.wire.memory_recall import ReadHints, ToolHints
from choir_common.wire.memory_search import MemoryHits
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.log.leases.store import Lease
from choir_testing.fake_memory import FakeMemory

SECRET = "sk-very-secret-1234"


async def test_a_secret_in_a_write_is_masked_before_it_leaves_control() -> None:
    redactor = Redactor()
    redactor.add_secrets((SECRET,))
    bindings = ResourceBindings(workspace="main", llm="default", dm="console")
    lease = Lease("ses_1", "main", 1, b"", bindings)
    tools = MemoryTools(FakeMemory(), redactor)
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
    answer = await MemoryTools(Listening(), redactor).hints(lease, "call-1", given)
    assert answer == ToolHints(hints=())
    (wanted,) = asked
    assert (wanted.agent_id, wanted.said) == ("main", f"exit code 1: bad key {MASK}")
