"""Wait until a stack has recovered from a kill."""

import asyncio

import psutil

from choir_common.http.client import make_client
from tests.support.stack import EmbeddedStack

MEND_WITHIN_S = 300


async def await_return(stack: EmbeddedStack, victim: str, old_pid: int | None) -> None:
    """Wait until the victim lives again under another pid, and control finds everything there."""
    async with asyncio.timeout(MEND_WITHIN_S), make_client(stack.endpoint) as client:
        while True:
            try:
                pid = await stack.agent_pid() if victim == "agent" else stack.pid(victim)
                if pid and pid != old_pid and psutil.pid_exists(pid):
                    (await client.get("/readyz")).raise_for_status()
                    return
            except Exception as error:  # whatever is down right now is what this test is about
                assert not isinstance(error, AssertionError)
            await asyncio.sleep(0.1)


async def pid_of(stack: EmbeddedStack, victim: str) -> int | None:
    return await stack.agent_pid() if victim == "agent" else stack.pid(victim)
