"""Fakes for the collaborators of `ApprovalService` and `ProposalWorker`."""

from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any


class SilentOutbox:
    """An outbox whose messages nobody delivers."""

    def rescan(self, dm: str) -> None:
        """Ignore the new messages."""


class IdleProposalRunner:
    """A worker that applies nothing."""

    def wake(self) -> None:
        """Ignore the decision."""


@dataclass
class RecordingRedeployer:
    """Records the agents that would be updated."""

    agents: list[str] = field(default_factory=list)
    result: str = "Renewed."

    async def redeploy(self, agent_id: str) -> str:
        self.agents.append(agent_id)
        return self.result


def configuration_with_timeout(timeout: timedelta) -> Any:
    """Return a configuration in which approval requests expire after `timeout`."""
    timeout_ms = timeout // timedelta(milliseconds=1)
    config = SimpleNamespace(approval_timeout_ms=timeout_ms)
    return SimpleNamespace(current=SimpleNamespace(config=config))
