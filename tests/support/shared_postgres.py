"""A Postgres server shared by many tests, run as a detached process until the test process ends.

Used by the fixture `postgres`; runs as `python -m tests.support.shared_postgres`. It must not be a child
process of the tests: they run the agent's tools in their own process, and these kill every unknown child.
"""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.postgres import running_postgres

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


@contextlib.contextmanager
def shared_postgres() -> Iterator[str]:
    """Start the shared Postgres; yield its address. It stops with the block, or if this process dies."""
    with no_subreaper():
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.shared_postgres"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        keeper.wait(timeout=60)
    assert keeper.stdin and keeper.stdout
    try:
        dsn = keeper.stdout.readline().decode().strip()
        assert dsn, "no Postgres was started: the keeper said why on standard error"
        yield dsn
    finally:
        keeper.stdin.close()
        keeper.stdout.read()  # returns when the keeper process has ended
        keeper.stdout.close()


@contextlib.contextmanager
def no_subreaper() -> Iterator[None]:
    """Make orphan processes children of init in the block, even if a test made this process a subreaper."""
    libc = ctypes.CDLL(None)
    was = ctypes.c_int(0)
    if sys.platform == "linux":
        libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        if was.value:
            libc.prctl(PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


async def serve() -> None:
    """Run the server until the test process closes our standard input or dies."""
    async with running_postgres() as server:
        print(server.dsn, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Detach from the parent process, then run the server."""
    if os.fork():
        os._exit(0)
    os.setsid()
    asyncio.run(serve())


if __name__ == "__main__":
    main()
