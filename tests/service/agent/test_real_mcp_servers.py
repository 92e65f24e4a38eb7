"""Published MCP servers, installed from npm and PyPI, and run confined and without network."""

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from choir_common.wire.model import JsonObject
from tests.service.agent.test_mcp_servers import Agent, running

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[3]
INSTALL_WITHIN_S = 1_200
PACKAGES = ("server-everything", "server-sequential-thinking")
CALLS: tuple[tuple[str, str, JsonObject, str], ...] = (
    ("server-everything", "echo", {"message": "hello"}, "hello"),
    (
        "server-sequential-thinking",
        "sequentialthinking",
        {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtNumber",
    ),
    ("mcp_server_time", "get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
)


async def install(*command: str) -> None:
    """Run an installer to its end."""
    process = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(INSTALL_WITHIN_S):
        assert await process.wait() == 0


def command_of(choir: Path, server: str) -> dict[str, object]:
    """Return the configuration that starts an installed server."""
    if server.startswith("mcp_"):
        return {
            "command": (sys.executable, "-m", server),
            "environment": {"PYTHONPATH": str(choir / "py")},
        }
    folder = choir / "node/node_modules/@modelcontextprotocol" / server
    return {"command": (str(shutil.which("node")), str(folder / "dist/index.js"))}


async def test_servers_of_the_registries_are_installed_and_a_tool_of_each_is_called(
    tmp_path: Path,
) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".tools/bin"))
    if uv is None or shutil.which("npm") is None:
        pytest.skip("needs npm and uv")
    async with running(Agent(tmp_path)) as agent:
        choir = tmp_path / "choir"
        packages = [f"@modelcontextprotocol/{name}" for name in PACKAGES]
        await install("npm", "install", "--no-audit", "--prefix", str(choir / "node"), *packages)
        python = ("--python", sys.executable, "--target", str(choir / "py"))
        await install(uv, "pip", "install", *python, "mcp-server-time")
        for number, (server, tool, arguments, answer) in enumerate(CALLS, start=1):
            await agent.configure(**command_of(choir, server))
            # the person's yes to the tools of this server, not of the one before
            await agent.until_requests(number)
            await agent.until_ready()
            assert answer in str(await agent.call(tool, **arguments))
