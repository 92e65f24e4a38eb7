"""Start of the embedded stack in the background. Called by `choirctl up --detach`.

The stack is `python -m choir_local` in a session of its own; run/stack.json has its state.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_local.child_log import read_log_tail
from choir_local.home import Home
from choir_local.launch import open_log
from choir_local.settings import LocalSettings
from choir_local.stack_state import StackObserver, StackState, read_state

READY_WITHIN = timedelta(minutes=5)  # initdb on a slow disk, and the first import of every service
POLL_S = 0.05


async def start_detached(
    settings: LocalSettings,
    observer: StackObserver | None = None,
    within: timedelta = READY_WITHIN,
) -> StackState:
    """Start a stack that outlives this process; return its state once everything is ready.

    Raises StartupError with the reason if it does not start; nothing is left running then.
    """
    home = Home(settings.home.expanduser().absolute())
    home.make()
    log = home.logs / "stack.log"
    process = _spawn(home, settings, log)
    deadline = time.monotonic() + within.total_seconds()
    previous: StackState | None = None
    try:
        while time.monotonic() < deadline:
            state = _state_of(home, process.pid)
            if state is not None and state != previous:
                previous = state
                if observer is not None:
                    observer.show(state)
            if state is not None and state.phase == "ready":
                return state
            if process.poll() is not None:
                reason = state.error if state and state.error else read_log_tail(log)
                raise StartupError(
                    reason or _("The stack ended at once; see {log}.").format(log=log)
                )
            await asyncio.sleep(POLL_S)
        raise StartupError(
            _("The stack was not ready within {total_seconds:g} s. See {logs}.").format(
                total_seconds=within.total_seconds(), logs=home.logs
            )
        )
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.to_thread(process.wait)
        raise


def _spawn(home: Home, settings: LocalSettings, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **settings.as_environment(), "CHOIR_HOME": str(home.root)}
    log_fd = open_log(log)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "choir_local"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log_fd)


def _state_of(home: Home, pid: int) -> StackState | None:
    """Return the state if the process `pid` wrote it, not an earlier process."""
    state = read_state(home.state_file)
    return state if state is not None and state.supervisor_pid == pid else None
