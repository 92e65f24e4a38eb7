"""Do what a command asks; when that outlasts the acknowledgement, tell the conversation of its end.

Used by the handlers of `agents` and `works`. A channel waits seconds for its acknowledgement, and an agent
may take minutes to come to its end. Each is an operation: what choird's own end cuts off is told as well.
"""

from collections.abc import Awaitable, Callable

from choir_common.wire.model import Wire
from choir_control.operations.progress import Progress
from choir_control.operations.run import Operations
from choir_control.operations.store import Asker

# the gateway gives an acknowledgement five seconds
WAIT_S = 3.0
LATER = "This conversation is told when it is done."
Work = Callable[[], Awaitable[str]]


class Errands:
    """Works begun by commands."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def begin(self, asker: Asker, kind: str, subject: str, work: Work) -> str | None:
        """Begin a work that says how it ended; return that, none if it still goes on after some seconds.

        Raises RateLimited while too many go on.
        """

        async def noted(progress: Progress) -> Wire | None:
            progress.outcome = await work()
            return None

        operation_id = await self._operations.begin(kind, subject, frozenset(), noted)
        view = await self._operations.end_or_promise(operation_id, WAIT_S, asker)
        return None if view is None else view.error or view.step
