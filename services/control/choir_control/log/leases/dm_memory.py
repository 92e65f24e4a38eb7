"""Store of the table `conversation_memory`: the memory mode and recall of each conversation."""

from dataclasses import dataclass

from choir_common.postgres.pool import Database
from choir_common.wire.config import AgentConfig
from choir_common.wire.memory_modes import DEFAULT_MODE, INCOGNITO, MemoryMode

_SET_MODE = """
INSERT INTO choir_control.conversation_memory (dm, mode) VALUES ($1, $2)
ON CONFLICT (dm) DO UPDATE SET mode = $2, changed_at = clock_timestamp()
"""
_SET_RECALL = """
INSERT INTO choir_control.conversation_memory (dm, recall) VALUES ($1, $2)
ON CONFLICT (dm) DO UPDATE SET recall = $2, changed_at = clock_timestamp()
"""
# Messages that the next session of the conversations would read, or that session $2 is still answering.
_COUNT_OPEN = """
SELECT count(*) FROM choir_control.inbox
WHERE dm = ANY($1) AND closed_at IS NULL AND answered_rev IS NULL
  AND (session_id IS NULL OR session_id = $2)
"""


@dataclass(frozen=True, slots=True)
class DmMemorySettings:
    """How a conversation uses memory."""

    mode: MemoryMode = DEFAULT_MODE
    """Mode in which its next session starts."""
    recall: bool | None = None
    """None: as the agent's configuration says."""


class DmMemoryStore:
    """Store of the memory settings of conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, dm: str) -> DmMemorySettings:
        """Return a conversation's settings."""
        row = await self._database.fetchrow(
            "SELECT mode, recall FROM choir_control.conversation_memory WHERE dm = $1", dm
        )
        return DmMemorySettings(row["mode"], row["recall"]) if row else DmMemorySettings()

    async def read_all(self) -> dict[str, DmMemorySettings]:
        """Return the settings of all conversations that have some, by DM."""
        rows = await self._database.fetch(
            "SELECT dm, mode, recall FROM choir_control.conversation_memory"
        )
        return {row["dm"]: DmMemorySettings(row["mode"], row["recall"]) for row in rows}

    async def set_mode(self, dm: str, mode: MemoryMode) -> None:
        """Set the mode in which the conversation's next session starts."""
        await self._database.execute(_SET_MODE, dm, mode)

    async def set_recall(self, dm: str, recall: bool | None) -> None:
        """Set whether the conversation reads memory; None: as the agent's configuration says."""
        await self._database.execute(_SET_RECALL, dm, recall)

    async def notify(self, dm: str, gateway: str, text: str) -> None:
        """Queue a notice for the conversation's user."""
        await self._database.fetchval("SELECT choir_control.say($1, $2, $3)", dm, gateway, text)

    async def count_open_messages(self, dms: list[str], session_id: str | None) -> int:
        """Return how many messages wait for a reply: of a session, and those no session has read."""
        return int(await self._database.fetchval(_COUNT_OPEN, dms, session_id))


def effective_recall(mode: MemoryMode, setting: bool | None, agent: AgentConfig | None) -> bool:
    """Return whether memory is read: never incognito, else as the conversation or the agent says."""
    if mode == INCOGNITO:
        return False
    return setting if setting is not None else agent is None or agent.recall
