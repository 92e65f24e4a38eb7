"""Real Postgres and NATS for a test: started from the wheels, gone when it ends.

Fixtures in tests/conftest.py make these; a test that kills a server starts one of its own.
"""

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from choir_local.postgres import EmbeddedPostgres, PostgresPlaces

PASSWORD = "test-password"


@contextlib.asynccontextmanager
async def running_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """Start an empty Postgres in a short temporary directory."""
    # a Unix socket path takes 107 bytes: pytest's own temporary directories are too deep
    root = Path(tempfile.mkdtemp(prefix="choir-pg-"))
    server = EmbeddedPostgres(
        PostgresPlaces(root / "data", root / "s", root / "postgres.log"), PASSWORD
    )
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(root, ignore_errors=True)
