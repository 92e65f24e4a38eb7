"""Runner of pg_dump and pg_restore. Called by `backup` and `restore`."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path

from choir_common.errors import StartupError
from choir_local.database.connection import DatabaseAccess, password_file
from choir_local.launch import clean_environment
from choir_local.postgres_cluster import SUPERUSER

LOOK_S = 0.2
SAID_LINES = 5


async def run_program(
    reached: DatabaseAccess, name: str, *options: str, look: Callable[[], None]
) -> None:
    """Run a Postgres program to its end; call `look` every 0.2 s, to show the progress.

    Raises StartupError with the program's error output.
    """
    program = _find(reached, name)
    with password_file(reached) as passwords:
        process = await asyncio.create_subprocess_exec(
            program,
            *("--host", reached.host, "--username", SUPERUSER, "--no-password"),
            *options,
            env=clean_environment(PGPASSFILE=str(passwords), PGAPPNAME="choirctl-db"),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        talking = asyncio.ensure_future(process.communicate())
        try:
            while not (await asyncio.wait((talking,), timeout=LOOK_S))[0]:
                look()
        except BaseException:
            process.kill()
            await talking
            raise
    _, said = talking.result()
    if process.returncode:
        words = " ".join(said.decode(errors="replace").splitlines()[:SAID_LINES])
        raise StartupError(f"{name} failed: {words}")


def _find(reached: DatabaseAccess, name: str) -> str:
    program = Path(reached.binaries.program(name))
    if not program.is_file():
        raise StartupError(
            f"There is no {name} beside the Postgres in use ({reached.binaries.directory}). Set "
            "CHOIR_PG_BIN to a complete installation."
        )
    return str(program)
