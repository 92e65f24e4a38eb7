"""Fixtures of carrying out what was approved: a real database, a real file, a real git repository."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.postgres.pool import Database
from tests.service.control.conftest import database, dsn, postgres, template, wide_pools
from tests.service.evolution.scene import Scene, make_scene

__all__ = ["database", "dsn", "postgres", "template", "wide_pools"]


@pytest.fixture
async def scene(wide_pools: None, database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    """An agent with a session, a configuration and a repository."""
    yield await make_scene(database, tmp_path)
