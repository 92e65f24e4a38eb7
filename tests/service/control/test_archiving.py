"""Sessions find their way into memory by themselves: all of them, in order, also after anything was away."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import orjson
import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import ChoirError, TooLarge, Unavailable
from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.events import MemoryWriteCommitted, ModelOutput
from choir_common.wire.memory_operator import DeleteDocument, MemoryErased
from choir_common.wire.memory_search import MemoryReader
from choir_common.wire.memory_sessions import ArchivePage, ArchiveProgress, RecordUnits
from choir_control.log.archiving.archiver import LIVE_MIN_EVENTS, PAGE_EVENTS, SessionArchiver
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore
from choir_control.log.eventlog.store import EventStore
from choir_testing.fake_memory_sessions import FakeSessionMemory
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_metrics import figures
from tests.service.control.world import World, until
from tests.support.fixed_configuration import FixedConfiguration
from tests.support.sessions import LogBuilder, conversation_log

WINDOW = 10
CONFIG = Config.model_validate_json(
    orjson.dumps(
        {
            "agents": {
                "brisk": {
                    "defaults": {"workspace": "w", "llm": "m", "dm": "d"},
                    "settle_after_ms": 60_000,
                    "memory_between_people": "separate",
                }
            },
            "workspaces": {},
            "event_window": WINDOW,
            "memory": {"mid_term_sessions": 3},
        }
    )
)
INSERT = """
INSERT INTO choir_control.sessions (session_id, agent_id, status, epoch, head_rev, head_hash, workspace,
    llm, dm, gateway, started_at, ended_at)
VALUES ($1, $2, $3, 1, $4, $5, 'w', 'm', 'd', 'g', $6, $7)
"""
EVENT = """
INSERT INTO choir_control.session_events (session_id, rev, lane, type, payload, at, hash_prev, hash)
VALUES ($1, $2, $3, $4, $5::json, $6, $7, $8)
"""


@dataclass
class Stubborn(FakeSessionMemory):
    """A memory that fails when it is told to; `fail` is used up one a page."""

    fail: list[ChoirError] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def archive(self, page: ArchivePage) -> ArchiveProgress:
        if self.fail:
            raise self.fail.pop(0)
        return await super().archive(page)


@dataclass
class Documents:
    """A fake memory that stores nothing and records what was erased."""

    erased: list[str]

    async def delete(self, asked: DeleteDocument) -> MemoryErased:
        self.erased.append(asked.name)
        return MemoryErased(documents=1, derived=0)


@dataclass
class Desk:
    database: Database
    memory: Stubborn
    archivist: SessionArchiver
    erased: list[str]
    """Names of the documents of knowledge that were erased."""

    async def store(self, script: LogBuilder, *, ended: bool = True) -> None:
        """Put a session into control's tables, as one of before."""
        last = script.events[-1]
        until_ = script.started_at + timedelta(hours=1) if ended else None
        status = "stopped" if ended else "active"
        who = (script.session_id, script.agent_id, status, last.rev, last.hash)
        await self.database.execute(INSERT, *who, script.started_at, until_)
        for event in script.events:
            payload = orjson.dumps(event.payload).decode()
            chain = (event.at, event.hash_prev, event.hash)
            await self.database.execute(
                EVENT, event.session_id, event.rev, event.lane, event.type, payload, *chain
            )

    async def row(self, session_id: str) -> dict[str, object]:
        row = await self.database.fetchrow(
            "SELECT archived_rev, archived_at IS NOT NULL AS done, archive_tries AS tries, archive_error AS "
            "error, archive_due_at > clock_timestamp() AS later FROM choir_control.sessions "
            "WHERE session_id = $1",
            session_id,
        )
        assert row is not None
        return dict(row)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    memory = Stubborn()
    erased: list[str] = []
    rehearsals = RehearsalEraser(database, memory, Documents(erased))
    events = EventStore(database, AuditKeyring())
    archivist = SessionArchiver(
        store=ArchiveStore(database),
        events=events,
        memory=memory,
        configuration=FixedConfiguration(CONFIG),  # type: ignore[arg-type]
        rehearsals=rehearsals,
    )
    yield Desk(database, memory, archivist, erased)


def make_long(session_id: str = "s1", messages: int = 400, **more: str) -> LogBuilder:
    return conversation_log(
        session_id, *(f"message {number}" for number in range(messages)), **more
    )


async def test_sessions_of_before_are_caught_up_on_oldest_first(desk: Desk) -> None:
    for number in (2, 0, 1):
        script = conversation_log(f"s{number}", "hello")
        script.started_at += timedelta(days=number)
        await desk.store(script)
    await desk.archivist.sweep()
    assert [page.session_id for page in desk.memory.pages] == ["s0", "s1", "s2"]
    for page in desk.memory.pages:
        assert page.end is not None and page.end.mid_term_sessions == 3
    assert (await desk.row("s2"))["done"]
    await desk.archivist.sweep()
    assert len(desk.memory.pages) == 3


async def test_a_page_names_the_home_conversation_and_who_may_read_what(desk: Desk) -> None:
    script = conversation_log("s1", "hello")
    script.agent_id = "brisk"
    await desk.store(script)
    await desk.database.execute(
        "INSERT INTO choir_control.session_conversations (session_id, dm, gateway, unbound_at) "
        "VALUES ('s1', 'left', 'g', now())"
    )
    await desk.archivist.sweep()
    (page,) = desk.memory.pages
    assert page.home_dm == "d"
    assert set(page.readers) == {
        MemoryReader(conversations=("d",), with_older=True),
        MemoryReader(conversations=("left",)),
    }


async def test_a_long_session_goes_in_pages_that_follow_each_other(desk: Desk) -> None:
    script = make_long()
    await desk.store(script)
    await desk.archivist.sweep()
    assert desk.memory.revisions("main", "s1") == [event.rev for event in script.events]
    sizes = [len(page.events) for page in desk.memory.pages]
    assert len(sizes) == 4 and max(sizes) <= PAGE_EVENTS
    assert [page.end is not None for page in desk.memory.pages] == [False, False, False, True]


async def test_large_events_make_small_pages(desk: Desk) -> None:
    script = conversation_log("s1", *("x" * 900_000 for _ in range(5)))
    await desk.store(script)
    await desk.archivist.sweep()
    assert desk.memory.revisions("main", "s1") == [event.rev for event in script.events]
    assert len(desk.memory.pages) >= 5


async def test_a_memory_that_is_away_makes_a_session_wait_and_not_more(desk: Desk) -> None:
    await desk.store(make_long())
    ok = await desk.memory.archive(make_long().page(0, PAGE_EVENTS))
    assert ok.through_rev == PAGE_EVENTS
    desk.memory.fail = [Unavailable("gone")]
    with pytest.raises(Unavailable):
        await desk.archivist.sweep()
    assert (await desk.row("s1"))["tries"] == 0
    await desk.archivist.sweep()
    assert (await desk.row("s1"))["done"]
    assert desk.memory.revisions("main", "s1") == list(range(1, 803))


async def test_a_session_that_cannot_be_archived_waits_and_keeps_no_other_back(desk: Desk) -> None:
    first, second = conversation_log("s0", "poison"), conversation_log("s1", "fine")
    second.started_at += timedelta(days=1)
    await desk.store(first)
    await desk.store(second)
    desk.memory.fail = [TooLarge("too much")]
    await desk.archivist.sweep()
    row = await desk.row("s0")
    assert (row["done"], row["tries"], row["error"], row["later"]) == (False, 1, "too much", True)
    told = await ArchiveStore(desk.database).describe_backlog()
    assert told == "1 session waits to be archived: too much"
    assert (await desk.row("s1"))["done"]
    await desk.database.execute("UPDATE choir_control.sessions SET archive_due_at = now()")
    await desk.archivist.sweep()
    row = await desk.row("s0")
    assert (row["done"], row["tries"], row["error"]) == (True, 0, None)
    assert await ArchiveStore(desk.database).describe_backlog() == ""


async def test_a_stored_event_that_is_none_any_more_keeps_no_other_session_back(desk: Desk) -> None:
    await desk.store(conversation_log("s0", "broken"))
    other = conversation_log("s1", "fine")
    other.agent_id = "other"
    await desk.store(other)
    await desk.database.execute(
        "UPDATE choir_control.session_events SET payload = '[]' WHERE session_id = 's0' AND rev = 2"
    )
    await desk.archivist.sweep()
    assert (await desk.row("s0"))["later"] and (await desk.row("s1"))["done"]


async def test_a_memory_that_lost_what_it_had_is_told_again(desk: Desk) -> None:
    script = make_long()
    await desk.store(script, ended=False)
    await desk.archivist.sweep()
    desk.memory.forget()
    await desk.database.execute(
        "UPDATE choir_control.sessions SET status = 'stopped', ended_at = now()"
    )
    await desk.archivist.sweep()
    assert (await desk.row("s1"))["done"]
    assert desk.memory.revisions("main", "s1") == [event.rev for event in script.events]


async def test_of_a_live_session_what_left_the_window_is_archived(desk: Desk) -> None:
    script = make_long(messages=60)
    await desk.store(script, ended=False)
    await desk.archivist.sweep()
    assert desk.memory.revisions("main", "s1") == list(range(1, 122 - WINDOW + 1))
    assert all(page.end is None for page in desk.memory.pages)
    assert not (await desk.row("s1"))["done"]
    assert len(script.events) - (122 - WINDOW) < WINDOW + LIVE_MIN_EVENTS
    await desk.archivist.sweep()
    assert len(desk.memory.pages) == 1


async def make_older(desk: Desk, session_id: str, minutes: int, through: int = 10_000) -> None:
    """Let events up to a revision be stored so much earlier."""
    await desk.database.execute(
        "UPDATE choir_control.session_events SET stored_at = stored_at - make_interval(mins => $2) "
        "WHERE session_id = $1 AND rev <= $3",
        *(session_id, minutes, through),
    )


@pytest.mark.parametrize(("agent", "minutes"), [("main", 10), ("brisk", 1)])
async def test_a_quiet_live_session_is_archived_whole_and_once(
    desk: Desk, agent: str, minutes: int
) -> None:
    script = make_long(messages=3)
    script.agent_id = agent
    await desk.store(script, ended=False)
    await make_older(desk, "s1", minutes - 1)
    await desk.archivist.sweep()
    assert desk.memory.pages == []
    await make_older(desk, "s1", 1)
    await desk.archivist.sweep()
    assert desk.memory.revisions(agent, "s1") == [event.rev for event in script.events]
    [page] = desk.memory.pages
    assert page.end is None and not (await desk.row("s1"))["done"]
    await desk.archivist.sweep()
    assert len(desk.memory.pages) == 1


@pytest.mark.parametrize("ended", [False, True])
async def test_an_incognito_session_is_never_archived(desk: Desk, ended: bool) -> None:
    private, recorded = make_long("s1"), make_long("s2", messages=3)
    recorded.started_at += timedelta(days=1)
    if not ended:
        recorded.agent_id = "other"  # an agent has one live session
    await desk.store(private, ended=ended)
    await desk.store(recorded, ended=ended)
    await desk.database.execute(
        "UPDATE choir_control.sessions SET memory_mode = 'incognito' WHERE session_id = 's1'"
    )
    for session_id in ("s1", "s2"):
        await make_older(desk, session_id, 60)
    await desk.archivist.sweep()
    # it neither reaches memory nor blocks a later session of the agent
    assert {page.session_id for page in desk.memory.pages} == {"s2"}
    assert (await desk.row("s1"))["archived_rev"] == 0


async def test_a_live_session_that_is_never_quiet_is_archived_after_three_times_as_long(
    desk: Desk,
) -> None:
    script = make_long(messages=3)
    await desk.store(script, ended=False)
    await make_older(desk, "s1", 29, through=2)
    await desk.archivist.sweep()
    assert desk.memory.pages == []
    await make_older(desk, "s1", 1, through=2)
    await desk.archivist.sweep()
    assert desk.memory.revisions("main", "s1") == [event.rev for event in script.events]


async def test_a_stopped_agents_session_is_handed_on_and_counted_until_then(
    world: World, agent: AgentHand
) -> None:
    await world.say("remember the otter", "1")
    message = await agent.next_message()
    await agent.take_up(message)
    await agent.reply("I will", answers=message.inbox_id)
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await world.until_status(agent.spec.session_id, "stopping")
    world.runtime.die("main")
    assert (await stopping).json()["state"] == "stopped"
    # killed while it stopped, so it may have left work open; a second stop gives that up
    assert (await figures(world))["choir_sessions_to_archive"] == 0
    assert (await world.post("/v1/agents/main/stop")).status_code == 200
    assert (await figures(world))["choir_sessions_to_archive"] == 1

    memory = FakeSessionMemory()
    endpoint = Endpoint(subjects.archive_session(), ArchivePage, memory.archive)
    async with world.bus.serve("choir-memory", "1.0.0", endpoint):
        assert world.control is not None
        world.control.services.log.archiver.wake()

        async def archived() -> bool:
            return (await figures(world))["choir_sessions_to_archive"] == 0

        await until(archived)
    said = [event.type for page in memory.pages for event in page.events]
    assert said == ["session_started", "user_msg", "reply"]
    [page] = memory.pages
    assert page.end is not None and page.end.mid_term_sessions == 10


def a_rehearsal(session_id: str, *models: str) -> LogBuilder:
    """Return the log of a session in which these models answered, and the agent noted something down."""
    script = LogBuilder(session_id)
    script.start()
    for number, model in enumerate(models):
        script.user("my cat is Olga", f"t{number}")
        said = ModelOutput(turn_id=f"t{number}", text="noted", model=model, finish_reason="stop")
        script.add(said)
        for operation in ("inserted", "updated"):
            call = {"turn_id": f"t{number}", "call_id": f"c{number}{operation}"}
            document = f"{session_id}-{operation}"
            script.add(MemoryWriteCommitted(**call, operation=operation, document_id=document))
    script.stop()
    return script


async def mark_rehearsal(desk: Desk, *session_ids: str) -> None:
    sql = "UPDATE choir_control.sessions SET rehearsal = true WHERE session_id = ANY($1::text[])"
    await desk.database.execute(sql, list(session_ids))


async def begin_real(desk: Desk) -> None:
    """Begin a session with a real model, after all others."""
    script = LogBuilder("real", started_at=a_rehearsal("x").started_at + timedelta(days=1))
    script.start()
    await desk.store(script, ended=False)


async def test_rehearsals_are_remembered_until_a_real_model_begins_and_erased_then(
    desk: Desk,
) -> None:
    await desk.store(a_rehearsal("first", "rehearsal"))
    await mark_rehearsal(desk, "first")
    await desk.archivist.sweep()
    assert [page.session_id for page in desk.memory.pages] == ["first"] and desk.erased == []
    await desk.store(a_rehearsal("second", "rehearsal"))
    await mark_rehearsal(desk, "second")
    await begin_real(desk)
    await desk.archivist.forget_rehearsals("main")
    await desk.archivist.sweep()
    # what an earlier session had noted is only changed by a rehearsal, and stays
    assert sorted(desk.erased) == ["first-inserted", "second-inserted"]
    with pytest.raises(ChoirError, match="was erased"):
        await desk.memory.record(units("first"))
    assert [page.session_id for page in desk.memory.pages] == ["first"]
    assert (await desk.row("second"))["done"]


async def test_a_session_in_which_a_real_model_answered_too_is_no_rehearsal(desk: Desk) -> None:
    await desk.store(a_rehearsal("mixed", "rehearsal", "gpt-5"))
    await mark_rehearsal(desk, "mixed")
    await begin_real(desk)
    await desk.archivist.sweep()
    assert [page.session_id for page in desk.memory.pages] == ["mixed"] and desk.erased == []


def units(session_id: str) -> RecordUnits:
    return RecordUnits(agent_id="main", session_id=session_id, units=())
