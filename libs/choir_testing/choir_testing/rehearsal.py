"""Rehearsal model inside the current process, for tests and measurements."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from choir_common.http.listen import bind_tcp, serve
from choir_local.rehearsal.app import make_rehearsal_app
from choir_local.rehearsal.score import Score


@contextlib.asynccontextmanager
async def run_rehearsal(
    score: Score | None = None, port: int = 0, host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Serve `score` during the block; yields `http://HOST:PORT/v1`."""
    listener = bind_tcp(host, port, "port")
    stop = asyncio.Event()
    # No TaskGroup: a fixture's teardown runs in another task than its setup.
    server = asyncio.create_task(serve(make_rehearsal_app(score), [listener], stop))
    try:
        yield f"http://{host}:{listener.getsockname()[1]}/v1"
    finally:
        stop.set()
        await server
