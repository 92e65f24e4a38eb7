"""Appends that wait anyway share a statement, and nobody in it pays for another."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.eventlog.chain import LogHead
from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database
from choir_common.wire.rpc import ResourceBindings
from choir_control.log.eventlog.batch import EventBatch, make_batch
from choir_control.log.eventlog.group_commit import MAX_SESSIONS, WRITERS, GroupCommit
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.store import Lease

BOUND = ResourceBindings(workspace="w", llm="l", dm="d")
BEAT = make_batch(LogHead(), (), ("d",))


def lease(session_id: str) -> Lease:
    return Lease(session_id, "main", 1, b"", BOUND)


class GatedStore(EventStore):
    """A store whose statements wait for a gate, and which knows who was in each."""

    def __init__(self) -> None:
        super().__init__(Database("", None, size=1, application="test"), AuditKeyring())
        self.gate = asyncio.Event()
        self.statements: list[list[str]] = []
        self.foreign: set[str] = set()
        """Sessions whose base is not the head."""
        self.unfit: set[str] = set()
        """Sessions whose events Postgres takes for none of its types."""
        self.failure: Exception | None = None

    async def append_group(self, asks: Sequence[tuple[Lease, EventBatch]]) -> set[str]:
        names = [lease.session_id for lease, _ in asks]
        self.statements.append(names)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        if self.unfit.intersection(names):
            raise asyncpg.DatatypeMismatchError("no")
        return set(names) - self.foreign


class Scene:
    """Appends under way."""

    def __init__(self) -> None:
        self.store = GatedStore()
        self.group = GroupCommit(self.store)
        self.tasks: dict[str, asyncio.Task[bool]] = {}

    async def send(self, *session_ids: str) -> None:
        """Begin an append for each, in this order, and let them come as far as they can."""
        for name in session_ids:
            append = self.group.append(lease(name.rstrip("'")), BEAT)
            self.tasks[name] = asyncio.create_task(append)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def occupy(self) -> None:
        """Keep every writer busy."""
        await self.send(*(f"busy{number}" for number in range(WRITERS)))

    async def ends(self) -> dict[str, bool | BaseException]:
        """Open the gate; return how each append ended."""
        self.store.gate.set()
        ended = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return dict(zip(self.tasks, ended, strict=True))


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_while_a_writer_is_free_nobody_waits_for_company(scene: Scene) -> None:
    await scene.occupy()
    assert scene.store.statements == [[f"busy{number}"] for number in range(WRITERS)]


async def test_what_comes_while_all_write_shares_the_next_statement(scene: Scene) -> None:
    await scene.occupy()
    await scene.send("a", "b", "c")
    assert set((await scene.ends()).values()) == {True}
    assert scene.store.statements[WRITERS:] == [["a", "b", "c"]]


async def test_a_statement_is_bounded(scene: Scene) -> None:
    await scene.occupy()
    await scene.send(*(f"s{number}" for number in range(MAX_SESSIONS + 1)))
    assert set((await scene.ends()).values()) == {True}
    assert [len(names) for names in scene.store.statements[WRITERS:]] == [MAX_SESSIONS, 1]


async def test_two_batches_of_one_session_never_share_a_statement(scene: Scene) -> None:
    await scene.occupy()
    await scene.send("a", "a'", "b")
    assert set((await scene.ends()).values()) == {True}
    assert scene.store.statements[WRITERS:] == [["a"], ["a", "b"]]


async def test_one_whose_base_is_not_the_head_fails_alone(scene: Scene) -> None:
    scene.store.foreign = {"b"}
    await scene.occupy()
    await scene.send("a", "b", "c")
    ended = await scene.ends()
    assert (ended["a"], ended["b"], ended["c"]) == (True, False, True)


async def test_what_postgres_refuses_is_tried_alone_and_fails_alone(scene: Scene) -> None:
    scene.store.unfit = {"b"}
    await scene.occupy()
    await scene.send("a", "b", "c")
    ended = await scene.ends()
    assert ended["a"] is True and ended["c"] is True
    assert isinstance(ended["b"], asyncpg.PostgresError)


async def test_everybody_hears_that_the_database_is_away(scene: Scene) -> None:
    scene.store.failure = Unavailable()
    await scene.occupy()
    await scene.send("a", "b")
    ended = await scene.ends()
    assert all(isinstance(ended[name], Unavailable) for name in ("a", "b"))


async def test_when_the_one_who_writes_is_cut_off_the_others_hear_of_it(scene: Scene) -> None:
    await scene.occupy()
    await scene.send("a", "b")
    scene.tasks["a"].cancel()
    ended = await scene.ends()
    assert isinstance(ended["b"], OutcomeUnknown)
    assert await scene.group.append(lease("c"), BEAT), "the next goes on"


async def test_one_who_goes_away_while_he_waits_takes_no_answer_from_the_others(
    scene: Scene,
) -> None:
    await scene.occupy()
    await scene.send("a", "b", "c")
    scene.tasks["b"].cancel()
    ended = await scene.ends()
    assert ended["a"] is True and ended["c"] is True
