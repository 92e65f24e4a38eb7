"""Fixtures of control's tests: a choird of its own for each test, over real servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from choir_common.bus.client import Bus
from choir_common.postgres import pool
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_local.nats import EmbeddedNats
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, make_world
from tests.service.memory.servers import database, nats, postgres
from tests.support.bus import BUS_KEY
from tests.support.postgres import PASSWORD, fresh_database, make_template
from tests.support.shared_nats import shared_nats
from tests.support.shared_routes import share_routes

share_routes()
__all__ = ["database", "nats", "postgres"]


async def create_schema(database: Database) -> None:
    """Create control's schema in an empty database."""
    await migrate(database, "choir_control", read_migrations("choir_control.migrations"))


@pytest.fixture
def wide_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pools open a connection at once for each caller that waits; in the queue of one, the first wins."""
    monkeypatch.setattr(pool, "GROW_AFTER_S", 0.0)


@pytest.fixture(scope="session")
def template(postgres: str) -> str:
    """The name of a database with control's schema and no data."""
    making = make_template(postgres, "control", create_schema)
    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        return thread.submit(asyncio.run, making).result()


@pytest.fixture
async def dsn(postgres: str, template: str) -> AsyncIterator[str]:
    """The address of a fresh database with control's schema, copied because migrations take 0.1 s."""
    async with fresh_database(postgres, template) as address:
        yield address


@pytest.fixture(scope="session")
def shared_nats_url() -> Iterator[str]:
    """The address of one NATS server for all tests of this process: a start takes 0.1 s."""
    with shared_nats() as url:
        yield url


@pytest.fixture
def nats_url(request: pytest.FixtureRequest) -> str:
    """The address of the test's NATS server: the shared one, or `nats` for a test that stops it."""
    if "nats" in request.fixturenames:
        own: EmbeddedNats = request.getfixturevalue("nats")
        return own.url
    shared: str = request.getfixturevalue("shared_nats_url")
    return shared


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[Bus]:
    async with Bus(nats_url, BUS_KEY, "test") as connected:
        yield connected


@pytest.fixture
async def stopped(dsn: str, nats_url: str, database: Database, bus: Bus) -> AsyncIterator[World]:
    """A choird that has not been started."""
    async with make_world(dsn, PASSWORD, nats_url, database, bus) as world:
        yield world


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird whose agent `main` was started by itself."""
    await stopped.start()
    return stopped


@pytest.fixture
async def agent(world: World) -> AgentHand:
    """The agent `main`, introduced."""
    hand = await world.agent()
    await hand.begin()
    return hand
