"""Fixtures of control's tests: a choird of its own for each test, over real servers."""

from collections.abc import AsyncIterator

import pytest

from choir_common.bus.client import Bus
from choir_common.postgres.pool import Database
from choir_local.nats import EmbeddedNats
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, make_world
from tests.service.memory.servers import bus, database, dsn, nats, postgres
from tests.support.postgres import PASSWORD

__all__ = ["bus", "database", "dsn", "nats", "postgres"]


@pytest.fixture
async def stopped(
    dsn: str, nats: EmbeddedNats, database: Database, bus: Bus
) -> AsyncIterator[World]:
    """A choird that has not been started."""
    async with make_world(dsn, PASSWORD, nats.url, database, bus) as world:
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
