"""Interface of a proposal type: how it is shown, planned, applied and rolled back."""

from typing import Protocol

from choir_common.errors import Conflict
from choir_common.wire.json import JsonObject
from choir_control.approvals.store import Approval


class Stale(Conflict):
    """The state has changed since the human was shown it; the agent must propose again."""


class Carrier(Protocol):
    """One proposal type. Plans are JSON, because they are stored and outlive the process."""

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the human is shown with the payload, and the state that must not change.

        Raises BadInput for a request that can never be applied.
        """
        ...

    async def plan(self, asked: Approval) -> JsonObject:
        """Compare the current state with what was shown; return the plan.

        Raises Stale when something differs, Conflict or BadInput when the change is impossible.
        """
        ...

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        """Execute the plan; return a text for people. Idempotent: a second call has no further effect.

        Raises Stale when the state has changed since the plan was made, Unavailable to be retried.
        """
        ...

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Return the plan that rolls back an applied one; raises Conflict when it is impossible."""
        ...
