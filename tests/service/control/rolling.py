"""A choird whose agents are real, as processes or in containers, and its works."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.factory import make_docker_runtime
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.world import World, until
from tests.service.runtimes.containers import connect

ROOT = Path(__file__).parent.parent.parent.parent
WORK_WITHIN_S = 240
STATE_WITHIN_S = 300


@contextlib.asynccontextmanager
async def with_processes(world: World) -> AsyncIterator[None]:
    """Start choird with agents that are processes."""
    async with _started(world, ProcessRuntime(world.home, os.environ), "127.0.0.1"):
        yield


@contextlib.asynccontextmanager
async def with_containers(world: World) -> AsyncIterator[Any]:
    """Start choird with agents in containers of this checkout's image; yields a client of the engine."""
    client = connect()
    build = ["docker", "compose", "-p", "choirtest", "build", "--quiet", "agent"]
    await asyncio.to_thread(
        subprocess.run, build, cwd=ROOT, check=True, capture_output=True, timeout=900
    )
    world.settings = world.settings.model_copy(
        update={"runtime": "docker", "agent_image": "choir-agent:local"}
    )
    runtime = make_docker_runtime(world.settings, AgentLogs(world.home))
    gateway = client.networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"]
    try:
        async with _started(world, runtime, gateway):
            yield client
    finally:
        label = f"choir.built_for={world.home}"
        for image in client.images.list(filters={"label": label}):
            with contextlib.suppress(Exception):
                client.images.remove(image.id, force=True)
        client.close()


@contextlib.asynccontextmanager
async def _started(world: World, runtime: AgentRuntime, host: str) -> AsyncIterator[None]:
    async with run_rehearsal(host=host) as model:
        path = world.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        config["crash_detection_threshold_ms"] = 60_000
        path.write_text(json.dumps(config))
        await world.start(runtime)
        try:
            yield
        finally:
            await world.stop()


async def ended(world: World, path: str) -> dict[str, Any]:
    """Begin a work and return its view once it has ended."""
    begun = await world.post(path)
    assert begun.status_code == 202, begun.text
    view: dict[str, Any] = {}

    async def over() -> bool:
        view.update((await world.get(f"/v1/operations/{begun.json()['operation_id']}")).json())
        return bool(view["status"] != "running")

    await until(over, WORK_WITHIN_S)
    return view


async def state_of(world: World, agent: str) -> str:
    return str((await world.get(f"/v1/agents/{agent}")).json()["state"])


async def until_state(world: World, agent: str, state: str) -> None:
    """Wait until an agent is so; with its log if it crashes instead."""

    async def reached() -> bool:
        now = await state_of(world, agent)
        log = world.home / f"logs/{agent}.log"
        assert now != "crashed" or state == now, log.read_text()[-2_000:]
        return now == state

    await until(reached, STATE_WITHIN_S)
