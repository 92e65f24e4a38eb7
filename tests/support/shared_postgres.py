"""A Postgres server shared by many tests, run as a detached process until the test process ends.

Used by the fixture `postgres`; runs as `python -m tests.support.shared_postgres`.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator

import asyncpg

from tests.support.detached_server import detach, detached_server
from tests.support.postgres import PASSWORD, running_postgres


@contextlib.contextmanager
def shared_postgres() -> Iterator[str]:
    """Start the shared Postgres; yield its address. It stops with the block, or if this process dies."""
    with detached_server("tests.support.shared_postgres") as dsn:
        yield dsn


async def serve() -> None:
    """Run the server until the test process closes our standard input or dies."""
    async with running_postgres() as server:
        await simplify_password(server.dsn)
        print(server.dsn, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


async def simplify_password(dsn: str) -> None:
    """Hash the password once instead of 4,096 times: each login then takes 9 ms of processor time, not 14."""
    connection = await asyncpg.connect(dsn, password=PASSWORD)
    try:
        await connection.execute("SET scram_iterations = 1")
        await connection.execute(f"ALTER ROLE CURRENT_USER PASSWORD '{PASSWORD}'")
    finally:
        await connection.close()


if __name__ == "__main__":
    detach()
    asyncio.run(serve())
