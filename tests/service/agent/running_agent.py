"""Start the agent under test: inside this process, or as the real process control would start."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence

from choir_agent.app import run_agent
from choir_agent.settings import AgentProcessSettings
from choir_common.telemetry import Redactor
from tests.service.agent.control_stand_in import ControlStandIn


@contextlib.asynccontextmanager
async def running_agent(
    control: ControlStandIn, stop_grace_s: float = 0.5
) -> AsyncIterator[asyncio.Task[int]]:
    """Run the agent here; leaving the block kills it without a goodbye."""
    settings = AgentProcessSettings(
        hello_timeout_s=60.0,
        stop_grace_s=stop_grace_s,
        sigterm_grace_s=0.2,
        flush_grace_s=30.0,
    )
    agent = asyncio.create_task(run_agent(control.boot(), settings, Redactor()))
    try:
        yield agent
    finally:
        agent.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await agent


@contextlib.asynccontextmanager
async def agent_process(
    control: ControlStandIn, behind: Sequence[str] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m choir_agent`, hand it its boot line, and let its log go to `agent.log`.

    `behind` is a program that starts it, such as one that takes its capabilities away.
    """
    # a file, because a pipe that nobody empties would stop the agent
    with (control.root / "agent.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *behind, sys.executable, "-m", "choir_agent",
            stdin=subprocess.PIPE, stderr=log, env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(control.boot().model_dump_json().encode() + b"\n")
    await process.stdin.drain()
    process.stdin.close()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
