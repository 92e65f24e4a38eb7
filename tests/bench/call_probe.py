"""Program that runs in an agent's place and times calls; it writes the samples to `report.json`.

Executed as text by `tool_calls`, in the process runtime and in a container. It imports only what is in the
agent's image.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from choir_agent.tools.call_launcher_client import CallLauncherClient
from choir_agent.tools.program_runner import PATH, Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture, input_pipe, output_pipe
from choir_agent.tools.workspace_quota import WorkspaceQuota

WARM_UP, SAMPLES = 10, 150
COMMAND = ("/bin/sh", "-c", "true")
TIMEOUT_S = 60.0
CAPTURE_BYTES = 500_000


class Launches:
    """Ways to run the command, each until its end is known."""

    def __init__(self) -> None:
        launcher = os.environ.get("CHOIR_CALL_LAUNCHER")
        workspace, temporary = Path.cwd(), os.environ["TMPDIR"]
        self._launcher = CallLauncherClient(int(launcher) if launcher else None)
        quota = WorkspaceQuota(workspace, Path(temporary))
        self._programs = ProgramRunner(workspace, temporary, launcher=self._launcher, quota=quota)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what the host does not support of a call's domain; known after the first call."""
        return self._launcher.missing

    async def call(self) -> int | None:
        """Run it as `choir.exec` does."""
        return await self._call(offline=False)

    async def offline_call(self) -> int | None:
        """Run it as `choir.exec` does for a call without network."""
        return await self._call(offline=True)

    async def plain(self) -> int | None:
        """Run it as before there were domains: asyncio's process with the same pipes."""
        async with (
            output_pipe(OutputCapture(CAPTURE_BYTES)) as out,
            output_pipe(OutputCapture(CAPTURE_BYTES)) as err,
            input_pipe(None) as stdin,
        ):
            process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=stdin, stdout=out, stderr=err, env={"PATH": PATH}
            )
            return await process.wait()

    async def fork(self) -> int | None:
        """Run it with two system calls: the least that a new process costs here."""
        pid = os.posix_spawn(COMMAND[0], COMMAND, {"PATH": PATH})
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    async def _call(self, *, offline: bool) -> int | None:
        program = Program("call_1", COMMAND, TIMEOUT_S, offline=offline)
        out, err = OutputCapture(CAPTURE_BYTES), OutputCapture(CAPTURE_BYTES)
        return await self._programs.run(program, out, err)


async def measure() -> dict[str, object]:
    """Return the milliseconds of each launch, made in turns, and what the host lacks."""
    launches = Launches()
    ways: dict[str, Callable[[], Awaitable[int | None]]] = {
        "call": launches.call,
        "offline_call": launches.offline_call,
        "plain": launches.plain,
        "fork": launches.fork,
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM_UP + SAMPLES):
        for name, launch in ways.items():
            start = time.perf_counter()
            exit_code = await launch()
            milliseconds = (time.perf_counter() - start) * 1000
            if exit_code != 0:
                raise AssertionError(f"{name}: exit code {exit_code}")
            if number >= WARM_UP:
                samples[name].append(milliseconds)
    return {"samples": samples, "missing": launches.missing}


if __name__ == "__main__":
    text = json.dumps(asyncio.run(measure()))
    Path("report.part").write_text(text)
    Path("report.part").replace("report.json")
