"""Port through which sessions reach memory; implemented by `archiving.archivist`."""

from typing import Protocol


class Archive(Protocol):
    """Archive that passes ended sessions on to memory."""

    def wake(self) -> None:
        """Start a pass now, because a session has ended."""

    async def forget_rehearsals(self, agent_id: str) -> None:
        """Delete an agent's rehearsal sessions from memory."""
