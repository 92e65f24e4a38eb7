"""Requests of a harness whose calls run: each is answered as soon as its call has a result.

So a request that waits for a person does not keep back the answers to others.
"""

import asyncio
from typing import Protocol

from choir_agent.harnesses.updates import Asked, HarnessError
from choir_common.wire.events import ToolResultCommitted


class CallResults(Protocol):
    """Source of the results of calls."""

    def find_result(self, call_id: str) -> ToolResultCommitted | None:
        """Return the result of a call; None if it has none yet."""
        ...


class OpenRequests:
    """The requests of the newest output, by the ids of their calls."""

    def __init__(self, results: CallResults) -> None:
        self._results = results
        self._open: dict[str, Asked] = {}
        self._changed = asyncio.Event()
        self._failure: HarnessError | None = None

    def replace(self, requests: dict[str, Asked]) -> None:
        """Set the requests of a new output."""
        self._open = requests

    @property
    def is_open(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self._open)

    def take_all(self) -> list[Asked]:
        """Return the requests that are not answered yet; they are no longer open."""
        requests, self._open = [*self._open.values()], {}
        return requests

    def result_committed(self) -> None:
        """Look again for results; must not block."""
        self._changed.set()

    async def answer_all(self) -> None:
        """Answer each request once its call has a result, until all are answered.

        If the harness does not take an answer, the calls still go on; `finish` raises its error.
        """
        try:
            while self._open:
                self._changed.clear()
                await self._answer_ready()
                if self._open:
                    await self._changed.wait()
        except HarnessError as error:
            self._failure = error

    async def finish(self) -> None:
        """Answer what is left after the calls; raises HarnessError if the harness does not take an answer."""
        if self._failure is not None:
            raise self._failure
        await self._answer_ready()
        self._open = {}

    async def _answer_ready(self) -> None:
        for call_id in list(self._open):
            result = self._results.find_result(call_id)
            if result is not None:
                await self._open.pop(call_id).answer(result)
