"""Rebuild and update an agent after a change of its repository, and wait for the result.

Called by `carry_out` through `workshop`. After a crash it starts again: a second update does no harm.
"""

import asyncio

from choir_common.errors import ChoirError, Conflict, RateLimited, Unavailable
from choir_common.wire.operations import OperationView
from choir_control.operations.run import Operations
from choir_control.rollout.begin import Rollout

WITHIN_S = 1_800.0
LOOK_S = 0.5


class Renewal:
    """Updates agents in the same way as an operator."""

    def __init__(self, rollout: Rollout, operations: Operations) -> None:
        self._rollout = rollout
        self._operations = operations

    async def __call__(self, agent_id: str) -> str:
        """Update an agent; return a text about the result. The commit stays in either case."""
        again = f"Try `choirctl agent update {agent_id}`."
        try:
            async with asyncio.timeout(WITHIN_S):
                ended = await self._ended(await self._begun(agent_id))
        except TimeoutError:
            return f"Its update has not ended in time. {again}"
        # retried by the worker
        except Unavailable:
            raise
        except ChoirError as error:
            return f"It was not updated: {error.message} {again}"
        if ended.status == "succeeded":
            return f"{agent_id} is updated ({ended.step or 'done'})."
        return f"It was not updated: {ended.error or ended.status} {again}"

    async def _begun(self, agent_id: str) -> str:
        while True:
            try:
                return await self._rollout.update(agent_id)
            except (Conflict, RateLimited):
                # a running update may have read the repository before the change, so a new one is
                # needed
                await asyncio.sleep(LOOK_S)

    async def _ended(self, operation_id: str) -> OperationView:
        while True:
            view = await self._operations.get(operation_id)
            if view.status != "running":
                return view
            await asyncio.sleep(LOOK_S)
