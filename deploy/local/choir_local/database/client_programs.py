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
    access: DatabaseAccess, name: str, *options: str, inspect_progress: Callable[[], None]
) -> None:
    """Run a Postgres program to its end; call `look` every 0.2 s, to show the progress.

    Raises StartupError with the program's error output.
    """
    program = _find(access, name)
    with password_file(access) as passwords:
        process = await asyncio.create_subprocess_exec(
            program,
            *("--host", access.host, "--username", SUPERUSER, "--no-password"),
            *options,
            env=clean_environment(PGPASSFILE=str(passwords), PGAPPNAME="choirctl-db"),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        talking = asyncio.ensure_future(process.communicate())
        try:
            while not (await asyncio.wait((talking,), timeout=LOOK_S))[0]:
                inspect_progress()
        except BaseException:
            process.kill()
            await talking
            raise
    _, stderr = talking.result()
    if process.returncode:
        message = " ".join(stderr.decode(errors="replace").splitlines()[:SAID_LINES])
        raise StartupError(f"{name} failed: {message}")


def _find(access: DatabaseAccess, name: str) -> str:
    program = Path(access.binaries.program(name))
    if not program.is_file():
        raise StartupError(
            f"There is no {name} beside the Postgres in use ({access.binaries.directory}). Set "
            "CHOIR_PG_BIN to a complete installation."
        )
    return str(program)
