"""A NATS server shared by many tests, run as a detached process until the test process ends.

Used by the fixture `nats_url`; runs as `python -m tests.support.shared_nats`. A test that stops the server
needs one of its own. The bus keeps nothing: it is empty once a test's clients have closed.
"""

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict

from choir_common.bus.permissions import BusPermissions
from choir_local.bus_users import BusUser
from choir_local.nats import EmbeddedNats
from tests.support.bus import BUS_USERS
from tests.support.detached_server import detach, detached_server
from tests.support.home import make_short_directory
from tests.support.ports import free_port


@contextlib.contextmanager
def shared_nats() -> Iterator[str]:
    """Start the shared server; yield its address. It stops with the block, or if this process dies."""
    users = json.dumps([asdict(user) for user in BUS_USERS])
    with detached_server("tests.support.shared_nats", users) as url:
        yield url


async def serve() -> None:
    """Run the server until the test process closes our standard input or dies."""
    users = [
        BusUser(user["public_key"], BusPermissions(**user["permissions"]))
        for user in json.loads(sys.stdin.buffer.readline())
    ]
    root = make_short_directory("choir-nats-")
    server = EmbeddedNats(root / "data", root / "nats.log", users, port=free_port())
    try:
        await server.start()
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)
    finally:
        await server.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    detach()
    asyncio.run(serve())
