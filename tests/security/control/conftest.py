"""Fixtures of the attacks on choird: one of its own for each test, over real servers."""

import json

import pytest

from tests.service.control.conftest import (
    agent,
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
    "agent",
    "bus",
    "database",
    "dsn",
    "nats_url",
    "postgres",
    "shared_nats_url",
    "stopped",
    "template",
]


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird that takes no agent for crashed, however long the others are at it."""
    place = stopped.home / "config.json"
    config = json.loads(place.read_text()) | {"crash_detection_threshold_ms": 120_000}
    place.write_text(json.dumps(config))
    await stopped.start()
    return stopped
