"""Run small programs as confined agents, the way control runs the real one."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choir_control.agents.runtimes.port import AgentExit, LaunchSpec
from choir_control.agents.runtimes.process.cgroups import AgentCgroups
from choir_control.agents.runtimes.process.runtime import ProcessRuntime

TOKEN = "lease-token-that-nobody-may-see"
DEADLINE_S = 200.0
# Gives every probe `boot` (its boot line) and `report(value)`.
PRELUDE = """
import json, os, sys, signal, subprocess, time, socket, ctypes, resource
from pathlib import Path
boot = json.loads(sys.stdin.readline())
def report(value):
    partial = Path('partial')
    partial.write_text(json.dumps(value))
    partial.replace('report.json')
def attempt(deed):
    try:
        return ['done', repr(deed())[:500]]
    except Exception as error:
        return ['refused', type(error).__name__]
"""


@dataclass
class Place:
    """A state directory with secrets and two agents in it, and the runtime that serves it."""

    home: Path
    runtime: ProcessRuntime

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
        for _ in range(int(DEADLINE_S / 0.02)):
            if path.exists():
                return json.loads(path.read_text())
            if not any(agent.agent_id == agent_id for agent in await self.runtime.list_running()):
                break
            await asyncio.sleep(0.02)
        if path.exists():
            return json.loads(path.read_text())
        raise AssertionError(f"no report; the log says: {self.log(agent_id)}")

    def log(self, agent_id: str = "main") -> str:
        """Return what the agent's program wrote to its standard error."""
        return (self.home / "logs" / f"{agent_id}.log").read_text()


def stand_in_control(home: Path, code: str) -> tuple[str, ...]:
    """Return a command that starts one agent, which runs `code`, prints its pid, and waits a minute."""
    script = f"""
import asyncio, os, sys
from pathlib import Path
import structlog
from choir_control.agents.runtimes.port import LaunchSpec
from choir_control.agents.runtimes.process.cgroups import AgentCgroups
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
async def main():
    home = Path({str(home)!r})
    for part in ('ws', 'choir', 's'):
        (home / part).mkdir(exist_ok=True)
    runtime = ProcessRuntime(home, os.environ, command=(sys.executable, '-I', '-c', {PRELUDE + code!r}))
    spec = LaunchSpec('main', 'ses_1', 1, 'token', home / 'ws', home / 'choir', home / 's')
    print((await runtime.start(spec)).pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    return sys.executable, "-c", script


def program(code: str) -> tuple[str, ...]:
    """Return the command that runs `code` after the prelude."""
    return (sys.executable, "-I", "-c", PRELUDE + code)


@contextlib.asynccontextmanager
async def confining(
    code: str,
    environment: Mapping[str, str] | None = None,
    cgroups: AgentCgroups | None = None,
) -> AsyncIterator[Place]:
    """Make a place whose agents run `code`."""
    # not under pytest's own long temporary path: a Unix socket takes 107 bytes
    home = Path(tempfile.mkdtemp(prefix="choir-rt-")).resolve()
    (home / "secrets.json").write_text('{"operator-token": "crown jewels"}')
    runtime = ProcessRuntime(
        home,
        os.environ if environment is None else environment,
        command=program(code),
        cgroups=cgroups,
    )
    try:
        yield Place(home, runtime)
    finally:
        await runtime.close()
        shutil.rmtree(home, ignore_errors=True)
