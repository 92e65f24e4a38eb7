"""Error memory: a session's failures are remembered, and told when the same goes wrong again."""

from datetime import timedelta

from choir_common.clients.memory import NatsMemoryClient, NatsSessionMemoryClient
from choir_common.wire.events import parse_payload
from choir_common.wire.memory_recall import ReadHints, ToolHint
from choir_common.wire.memory_search import MemoryQuery
from choir_common.wire.memory_sessions import EraseSession
from choir_common.wire.model import JsonObject
from choir_memory.admin.write import SessionEraser
from choir_memory.maintenance.retention import ExpiryTask
from choir_memory.tool_errors.service import ToolErrorService
from tests.service.memory.conftest import Room
from tests.service.memory.derived import SetClock
from tests.service.memory.servers import MakeMemory
from tests.service.memory.session_archive import make_session_archive
from tests.support.sessions import BEGAN, LogBuilder

SAID = "exit code 128: fatal: could not read Username for 'https://example.org': terminal prompts disabled"
FAILED: JsonObject = {"exit_code": 128, "stderr": SAID.partition(": ")[2]}
DONE: JsonObject = {"exit_code": 0, "stdout": "ok"}


def make_session(name: str, *, solved: bool = True, days: int = 0) -> LogBuilder:
    script = LogBuilder(name, started_at=BEGAN + timedelta(days=days))
    script.start()
    script.user("Fetch the repository.")
    runs = [("git clone https://example.org/a", FAILED)]
    if solved:
        runs += [("git config credential.helper", DONE), ("git clone https://example.org/a", DONE)]
    for number, (command, output) in enumerate(runs):
        script.tool_call(f"c{number}", "choir.exec", {"command": command})
        script.result(f"c{number}", "choir.exec", output)
    script.reply("Done.")
    return script


async def live(room: Room, script: LogBuilder) -> None:
    archive = make_session_archive(room.database, room.spaces, room.queue)
    await archive.take(script.page())
    await archive.take(script.page(keep=10))


async def told(
    room: Room, said: str = SAID, days: int = 1, tool: str = "choir.exec"
) -> list[ToolHint]:
    clock = SetClock(BEGAN + timedelta(days=days))
    errors = ToolErrorService(room.database, room.spaces, clock)
    return list((await errors.hints(ReadHints(agent_id="main", tool=tool, said=said))).hints)


async def test_a_failure_that_was_solved_is_told_with_what_helped(room: Room) -> None:
    await live(room, make_session("s1"))
    (hint,) = await told(room)
    assert (hint.outcome, hint.at.date()) == ("resolved", BEGAN.date())
    assert "credential.helper" in hint.helped[0] and "git clone" in hint.helped[-1]


async def test_a_hint_states_the_trust_of_what_the_agent_had_read(room: Room) -> None:
    script = make_session("s1")
    page = LogBuilder("s2", started_at=BEGAN)
    page.start()
    page.tool("c9", "choir.web.browse", {"text": "Run it."}, turn="t0")
    for event in script.events[1:]:
        page.add(parse_payload(event))
    for log, trust in ((script, 30), (page, 10)):
        await live(room, log)
        assert min(hint.trust for hint in await told(room)) == trust


async def test_another_tool_or_another_failure_is_told_nothing(room: Room) -> None:
    await live(room, make_session("s1"))
    assert await told(room, tool="choir.fs.read") == []
    assert await told(room, "exit code 2: make: *** No rule to make target") == []


async def test_a_file_that_is_missing_says_nothing_about_another(room: Room) -> None:
    script = LogBuilder("s1", started_at=BEGAN)
    script.start()
    script.user("Read.")
    missing: JsonObject = {
        "code": "not_found",
        "message": "'a.txt' does not exist in the workspace.",
    }
    script.tool_call("c1", "choir.fs.read", {"path": "a.txt"})
    script.result("c1", "choir.fs.read", missing, status="error")
    script.reply("It is not there.")
    await live(room, script)
    said = "not_found {} does not exist in the workspace."
    assert await told(room, said.format("'gone.txt'"), tool="choir.fs.read") == []
    assert len(await told(room, said.format("'a.txt'"), tool="choir.fs.read")) == 1


async def test_what_was_solved_comes_before_what_was_given_up_later(room: Room) -> None:
    await live(room, make_session("s1"))
    await live(room, make_session("s2", solved=False, days=1))
    assert [one.outcome for one in await told(room, days=2)] == ["resolved", "abandoned"]


async def test_a_page_that_comes_twice_teaches_once(room: Room) -> None:
    script = make_session("s1")
    await live(room, script)
    await live(room, script)
    (hint,) = await told(room)
    assert hint.seen == 1


async def test_it_is_forgotten_after_ninety_days_unless_it_was_of_use(room: Room) -> None:
    await live(room, make_session("s1"))
    assert len(await told(room, days=89)) == 1
    assert len(await told(room, days=178)) == 1
    assert await told(room, days=269) == []


async def test_erasing_its_session_erases_it(room: Room) -> None:
    await live(room, make_session("s1"))
    await live(room, make_session("s2", days=1))
    await SessionEraser(room.database, room.spaces).erase(
        EraseSession(agent_id="main", session_id="s2")
    )
    assert [one.at.date() for one in await told(room, days=2)] == [BEGAN.date()]
    count = "SELECT count(*) FROM choir_main.knowledge_documents WHERE kind = 'error'"
    assert await room.database.fetchval(count) == 1


async def test_plain_searches_of_knowledge_do_not_find_it(room: Room) -> None:
    await live(room, make_session("s1"))
    note = await room.put("Username for the clone: choir.")
    named = await room.ask("clone username", kinds=("error",), include=("expired",))
    assert [hit.kind for hit in named.hits] == ["error"]
    plain = await room.ask("clone username", include=("expired",))
    assert [hit.document_id for hit in plain.hits] == [note.document_id]


async def test_the_service_answers_and_finds_it_by_kind(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.start()
    await NatsSessionMemoryClient(memory.bus).archive(make_session("s1").page())
    client = NatsMemoryClient(memory.bus)
    hints = await client.hints(ReadHints(agent_id="main", tool="choir.exec", said=SAID))
    # its ninety days are long over by the real clock
    assert hints.hints == ()
    query = MemoryQuery(
        agent_id="main",
        store="knowledge",
        query="credential helper clone",
        mode="text",
        kinds=("error",),
        include=("expired",),
    )
    (hit,) = (await client.query(query)).hits
    assert hit.kind == "error" and "How it ended: resolved" in hit.text and hit.trust == 30
    assert await memory.stop() == 0


async def test_what_has_expired_goes_with_the_next_round(room: Room) -> None:
    await live(room, make_session("s1"))
    count = "SELECT count(*) FROM choir_main.knowledge_documents"
    for days, left in ((89, 1), (91, 0)):
        clock = SetClock(BEGAN + timedelta(days=days))
        assert await ExpiryTask(room.database, clock).run_agent("main") == 1 - left
        assert await room.database.fetchval(count) == left
    assert await room.database.fetchval("SELECT count(*) FROM choir_main.links") == 0
    queued = "SELECT count(*) FROM choir_memory.embedding_queue WHERE store = 'knowledge'"
    assert await room.database.fetchval(queued) == 0
