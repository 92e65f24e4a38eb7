"""Run small programs as agents in containers, the way control runs the real one."""

import asyncio
import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]  # it ships no types
import pytest
from docker.errors import DockerException  # type: ignore[import-untyped]

from choir_control.agents.runtimes.containers import ContainerLimits
from choir_control.agents.runtimes.docker.runtime import DockerRuntime
from choir_control.agents.runtimes.port import AgentExit, LaunchSpec
from tests.security.runtimes.confined import PRELUDE, TOKEN

PYTHON_IMAGE = "python:3.13-slim-trixie"
DEADLINE_S = 200.0


def connect() -> Any:
    """Return a client of the local engine; the test is skipped where none answers."""
    try:
        return docker.from_env(timeout=30)
    except DockerException as error:
        pytest.skip(f"NO DOCKER ENGINE ANSWERS: agents in containers are not tested here ({error})")


@contextlib.contextmanager
def image_that_runs(code: str, base: str = PYTHON_IMAGE) -> Iterator[str]:
    """Make an image whose program is `code` after the prelude."""
    client = connect()
    command = json.dumps(["python", "-c", PRELUDE + code])
    dockerfile = f"FROM {base}\nCMD {command}\n".encode()
    image, _ = client.images.build(fileobj=io.BytesIO(dockerfile), rm=True)
    try:
        yield str(image.id)
    finally:
        client.images.remove(image.id, force=True)
        client.close()


@dataclass
class Yard:
    """A state directory and the runtime that serves it."""

    home: Path
    runtime: DockerRuntime
    client: Any
    image: str

    def spec(self, agent_id: str = "main", epoch: int = 1) -> LaunchSpec:
        """Describe a start of one of the agents, making its directories."""
        workspace = self.home / "workspaces" / agent_id
        choir_dir = self.home / "agents" / agent_id / "choir"
        socket_dir = self.home / "socks" / "agents" / agent_id
        for directory in (workspace, choir_dir, socket_dir):
            directory.mkdir(parents=True, exist_ok=True)
        (choir_dir / "SOUL.md").write_text("kind")
        return LaunchSpec(
            agent_id, f"ses_{agent_id}", epoch, TOKEN, workspace, choir_dir, socket_dir
        )

    async def next_exit(self) -> AgentExit:
        """Return the next exit."""
        async with asyncio.timeout(DEADLINE_S):
            return await anext(aiter(self.runtime.exits()))

    async def report(self, agent_id: str = "main") -> Any:
        """Return what the agent's program reported, as soon as it has."""
        path = self.home / "workspaces" / agent_id / "report.json"
        for _ in range(int(DEADLINE_S / 0.05)):
            if path.exists():
                return json.loads(path.read_text())
            if not any(agent.agent_id == agent_id for agent in await self.runtime.list_running()):
                break
            await asyncio.sleep(0.05)
        log = self.home / "logs" / f"{agent_id}.log"
        raise AssertionError(f"no report; {log.read_text() if log.exists() else 'and no log'}")

    def another(self) -> DockerRuntime:
        """Make the runtime of a second control process with the same state directory."""
        return DockerRuntime(home=self.home, image=self.image, network="none")

    async def places(self) -> list[str]:
        """Return the ids of this yard's containers, living or not."""
        return [str(container.id) for container in self.containers()]

    async def kill(self) -> None:
        """Kill the only agent's process from outside."""
        self.containers()[0].kill()

    async def remove(self) -> None:
        """Remove the only container from outside."""
        self.containers()[0].remove(force=True)

    async def cut_events(self) -> None:
        """Break the stream of the engine's events."""
        watcher = self.runtime._exit_watcher
        assert watcher is not None
        assert watcher._stream is not None
        watcher._stream.interrupt()

    def containers(self) -> list[Any]:
        """Return this yard's containers, living or not."""
        found = self.client.containers.list(all=True, filters={"label": f"choir.home={self.home}"})
        return list(found)


@contextlib.asynccontextmanager
async def yard_for(
    image: str, limits: ContainerLimits | None = None, network: str = "none"
) -> AsyncIterator[Yard]:
    """Make a yard whose agents run `image`; nothing of it is left afterwards."""
    home = Path(tempfile.mkdtemp(prefix="choir-dk-")).resolve()
    client = connect()
    runtime = DockerRuntime(home=home, image=image, network=network, limits=limits)
    yard = Yard(home, runtime, client, image)
    try:
        yield yard
    finally:
        await runtime.close()
        for container in yard.containers():
            container.remove(force=True)
        client.close()
        shutil.rmtree(home, ignore_errors=True)


def owner() -> str:
    """Return the user agents run as here."""
    return f"{os.getuid()}:{os.getgid()}"
