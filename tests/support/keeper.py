"""A Postgres that outlives many tests: it lives until the process that asked for it ends, as nobody's child.

Called by the fixture `postgres`; runs as `python -m tests.support.keeper`. Tests run the agent's tools in
their own process, and those end every child that they do not know: a server among them would be gone for all
tests that follow.
"""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers import running_postgres

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


@contextlib.contextmanager
def kept_postgres() -> Iterator[str]:
    """Have a Postgres kept; yield its address."""
    with _no_subreaper():
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.keeper"],
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
        keeper.stdout.read()  # it ends when the keeper does
        keeper.stdout.close()


@contextlib.contextmanager
def _no_subreaper() -> Iterator[None]:
    """Let orphans go to init for now, even if a test made this process their parent."""
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


async def keep() -> None:
    """Run the server until whoever asked closes our standard input, be it by dying."""
    # none of its tests asks what a power cut leaves of a disk
    async with running_postgres(in_memory=True) as server:
        print(server.dsn, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Leave the family, then keep a Postgres."""
    if os.fork():
        os._exit(0)
    os.setsid()
    asyncio.run(keep())


if __name__ == "__main__":
    main()
