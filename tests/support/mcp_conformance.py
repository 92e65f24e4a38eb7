"""The official conformance suite of MCP, installed from npm, and the inspector's command line.

The suite needs Node 22, which npm installs beside it. Only the installation uses the network.
"""

import asyncio
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFORMANCE = "@modelcontextprotocol/conformance"
INSPECTOR = "@modelcontextprotocol/inspector"
PACKAGES = (f"{CONFORMANCE}@0.1.16", f"{INSPECTOR}@0.15.0", "node@22.23.3")
INSTALL_WITHIN_S = 1_200
RUN_WITHIN_S = 1_800
BAD = ("FAILURE", "WARNING")
RUN = re.compile(r"^(?:server|client)-|-\d{4}-\d\d-\d\dT[\d-]+Z$")
"""What the suite adds to a scenario's name: the side, and the time."""


@dataclass(frozen=True)
class NodePackages:
    """Packages of npm in a folder."""

    folder: Path

    async def run(self, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Run a program with the installed Node; return its exit code and what it printed."""
        path = f"{self.folder / 'node_modules/.bin'}:{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env={**os.environ, "PATH": path, **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(RUN_WITHIN_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode or 0, output.decode(errors="replace")

    async def conformance(self, side: str, **options: str) -> "dict[str, ScenarioResult]":
        """Run scenarios of the suite against a `server` or a `client`; return the results by name."""
        out = self.folder / "results" / side
        shutil.rmtree(out, ignore_errors=True)
        main = self.folder / "node_modules" / CONFORMANCE / "dist/index.js"
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        _, output = await self.run("node", str(main), side, "-o", str(out), *words)
        results = {
            RUN.sub("", str(file.parent.relative_to(out))): ScenarioResult(
                json.loads(file.read_text()), output
            )
            for file in out.rglob("checks.json")
        }
        assert results, output[-2000:]
        return results


@dataclass(frozen=True)
class ScenarioResult:
    """What a scenario found."""

    checks: list[dict[str, str]]
    output: str

    @property
    def summary(self) -> str:
        """The number of checks by result, such as `3 success`."""
        counts = Counter(check["status"].lower() for check in self.checks)
        counts.pop("info", None)
        return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))

    @property
    def faults(self) -> list[str]:
        """The checks that are not as they should be."""
        return [
            f"{check['id']}: {check.get('errorMessage', '')}"
            for check in self.checks
            if check["status"] in BAD
        ]


async def install_packages(folder: Path) -> NodePackages:
    """Install the suite and the inspector; skips the test without npm.

    `CHOIR_TEST_NODE_PACKAGES` names a folder where they are installed already.
    """
    existing = os.environ.get("CHOIR_TEST_NODE_PACKAGES")
    if existing:
        return NodePackages(Path(existing))
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    process = await asyncio.create_subprocess_exec(
        "npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES
    )
    async with asyncio.timeout(INSTALL_WITHIN_S):
        assert await process.wait() == 0
    return NodePackages(folder)
