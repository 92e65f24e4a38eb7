"""What a kind of request needs in order to be shown, carried out and taken back. The kinds implement it."""

from typing import Protocol

from choir_common.errors import Conflict
from choir_common.wire.json import JsonObject
from choir_control.approvals.store import Approval


class Stale(Conflict):
    """Something has changed since it was shown to the human; it has to be proposed again."""


class Carrier(Protocol):
    """One kind of request. Plans are JSON: they outlive the process."""

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the human is shown beside the payload, and what must not change.

        Raises BadInput for what cannot be carried out at all.
        """
        ...

    async def plan(self, asked: Approval) -> JsonObject:
        """Compare everything with what was shown; return what is to be done.

        Raises Stale when something differs, Conflict or BadInput when it cannot be done.
        """
        ...

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        """Do what is planned; return what a person is told. Done twice it is done once.

        Raises Stale when the world has moved on since the plan was made, Unavailable to be tried again.
        """
        ...

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Return what takes the carried out plan back; raises Conflict when that is no longer possible."""
        ...
