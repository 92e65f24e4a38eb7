"""Endpoint for reminders to show with a user's message (`choir_common.clients.memory`).

Built by `app`; next is `layers.reminders`.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_reminders import Reminders, RemindersWanted
from choir_memory.layers.reminders import Reminding


@dataclass(frozen=True, slots=True)
class ReminderDoor:
    """Endpoint that control calls for an agent that has received a user message."""

    reminding: Reminding

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoint."""
        return (Endpoint(subjects.memory_reminders(), RemindersWanted, self._remind),)

    async def _remind(self, wanted: RemindersWanted) -> Reminders:
        # not retried: a user's message waits for this answer
        return await self.reminding.remind(wanted)
