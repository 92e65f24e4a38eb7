"""Programs that an upgrade runs: git, installers, and choirctl of the version that is installed then."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_local import child_start

SHOWN = 1500  # characters of a program's output in an error
WITHIN = timedelta(minutes=30)
VERIFY_WITHIN = timedelta(minutes=2)
"""How long a version that has started may not answer before its upgrade is undone."""
REPEAT_S = 3.0


class CommandRunner(Protocol):
    """Runs a program of this machine; `run_command` is the real one."""

    async def __call__(
        self,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: timedelta = WITHIN,
    ) -> str:
        """Return its standard output. Raises StartupError if it fails or takes too long."""


async def run_command(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    within: timedelta = WITHIN,
) -> str:
    """Run a program and return its standard output.

    Raises StartupError with the end of its error output if it fails or takes too long.
    """
    name = Path(command[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *_bound_to_this_process(command),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
    except OSError as error:
        raise StartupError(
            _("{command} cannot be run: {strerror}.").format(
                command=command[0], strerror=error.strerror
            )
        ) from error
    try:
        async with asyncio.timeout(within.total_seconds()):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise StartupError(
            _("{name} took longer than {within} and was stopped.").format(name=name, within=within)
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        output = (stderr or stdout).decode(errors="replace").strip()[-SHOWN:]
        raise StartupError(
            _("{names} failed: {output}").format(
                names=" ".join(map(str, command[:3])), output=output
            )
        )
    return stdout.decode(errors="replace").strip()


async def repeat_until_done(action: Callable[[], Awaitable[object]], within: timedelta) -> None:
    """Do an action again until it succeeds. Raises its last StartupError when the time is over.

    A busy machine may not answer in time once; that is no reason to undo an upgrade.
    """
    deadline = asyncio.get_running_loop().time() + within.total_seconds()
    while True:
        try:
            await action()
        except StartupError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(REPEAT_S)
        else:
            return


def _bound_to_this_process(command: Sequence[str | Path]) -> list[str]:
    """Return the command that runs a program which ends when this process does.

    Otherwise a program of a killed upgrade would still work while the next one continues.
    """
    setup = (child_start.__file__, str(os.getpid()), str(int(signal.SIGTERM)), "same")
    return [sys.executable, "-I", "-S", *setup, *map(str, command)]
