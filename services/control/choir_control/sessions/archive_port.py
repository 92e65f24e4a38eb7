"""What sessions need of the archive that hands them on to memory. Implemented by `archiving.archivist`."""

from typing import Protocol


class Archive(Protocol):
    """The way of sessions into memory."""

    def wake(self) -> None:
        """Look for work now: a session has ended."""

    async def forget_rehearsals(self, agent_id: str) -> None:
        """Have memory forget an agent's sessions with the rehearsal model."""
