"""Carry on with work that outlasts the acknowledgement of the command that began it.

Used by the handlers of `agents`; run by `app`. A channel waits seconds for its acknowledgement, and an agent
may take minutes to come to its end.
"""

import asyncio
from collections.abc import Awaitable

import structlog

from choir_common.errors import ChoirError, RateLimited, Unavailable

log = structlog.get_logger("choir.commands")

MAX_RUNNING = 32
# the gateway gives an acknowledgement five seconds
WAIT_S = 3.0


class Errands:
    """Works begun by commands, owned until they end."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[str]] = set()

    async def run(self) -> None:
        """Own the works until cancelled; they are cancelled with it."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    async def begin(self, what: str, work: Awaitable[str]) -> str | None:
        """Begin a work; return what it says, none if it still goes on after some seconds.

        Raises what it raises in that time, and RateLimited while too many go on.
        """
        if self._tasks is None:
            raise Unavailable("choird is still starting; try again in a moment.")
        if len(self._running) >= MAX_RUNNING:
            raise RateLimited(f"{len(self._running)} commands are still being done; wait for them.")
        task = self._tasks.create_task(_guarded(what, work), name=what)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait((task,), timeout=WAIT_S)
        if not task.done():
            log.info("command goes on", what=what)
            return None
        return task.result()


async def _guarded(what: str, work: Awaitable[str]) -> str:
    """Say why a work failed instead of bringing down those beside it."""
    try:
        return await work
    except ChoirError as error:
        log.warning("command failed", what=what, why=error.message)
        return error.message
    except Exception:
        # the outermost loop of this work: nobody above it but choird itself
        log.exception("command broke", what=what)
        return f"That failed for a reason nobody foresaw ({what}); choird's log has it."
