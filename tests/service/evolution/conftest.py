"""Fixtures of carrying out what was approved: a real database, a real file, a real git repository."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.postgres.pool import Database
from tests.service.evolution.scene import Scene, make_scene
from tests.service.memory.servers import database, dsn, postgres

__all__ = ["database", "dsn", "postgres"]


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    """An agent with a session, a configuration and a repository."""
    yield await make_scene(database, tmp_path)
