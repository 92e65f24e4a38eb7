"""Background execution of commands that outlast their acknowledgement.

Used by the handlers of `agents` and `works`. A channel waits seconds for its acknowledgement; an agent
may take minutes to stop. The conversation then gets the result later. Each command runs as an operation,
so that one interrupted by the end of choird is reported, too.
"""

from collections.abc import Awaitable, Callable

from choir_common.wire.model import Wire
from choir_control.operations.progress import Progress
from choir_control.operations.run import Operations
from choir_control.operations.store import Asker

# the gateway waits five seconds for an acknowledgement
WAIT_S = 3.0
LATER = "This conversation is told when it is done."
Work = Callable[[], Awaitable[str]]


class Errands:
    """Runs the work of commands as operations."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def begin(self, asker: Asker, kind: str, subject: str, work: Work) -> str | None:
        """Start the work and wait `WAIT_S` for its result text; None if it is still running then.

        Raises RateLimited while too many operations run.
        """

        async def noted(progress: Progress) -> Wire | None:
            progress.outcome = await work()
            return None

        operation_id = await self._operations.begin(kind, subject, frozenset(), noted)
        view = await self._operations.end_or_promise(operation_id, WAIT_S, asker)
        return None if view is None else view.error or view.step
