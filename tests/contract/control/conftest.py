"""Fixtures of what every door promises: a choird that listens at the test's `door`, over real servers."""

import pytest

from tests.service.control.conftest import (
    bus,
    database,
    dsn,
    nats_url,
    postgres,
    shared_nats_url,
    stopped,
    template,
)
from tests.service.control.world import World

__all__ = [
    "bus",
    "database",
    "dsn",
    "nats_url",
    "postgres",
    "shared_nats_url",
    "stopped",
    "template",
]

DOORS: dict[str, dict[str, str]] = {
    "agent socket": {},
    "host socket": {},
    "http": {"control_plane": "http"},
    "https": {"control_plane": "http", "tls": "on"},
}


@pytest.fixture
async def world(stopped: World, door: str) -> World:
    stopped.settings = stopped.settings.model_copy(update=DOORS[door])
    await stopped.start()
    return stopped
