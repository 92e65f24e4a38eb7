"""Memory modes of conversations, and whether a conversation reads memory (recall)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, WireModel

MemoryMode = Literal["local", "synced", "incognito"]
"""`local`: sessions are recorded and remembered. `synced`: reserved for a remote memory; the same as
`local` today. `incognito`: nothing reaches memory, and the log is erased when the session ends."""
RecallSetting = Literal["on", "off", "default"]
"""`default`: as `agents.NAME.recall` says."""
INCOGNITO: MemoryMode = "incognito"
DEFAULT_MODE: MemoryMode = "local"
MEMORY_MODES: dict[str, MemoryMode] = {
    "local": "local",
    "synced": "synced",
    "incognito": "incognito",
    "guest": "incognito",
}
"""What users may type, and the mode that it selects; `guest` is another name of `incognito`."""


class SetMemoryMode(WireModel):
    """Switch the memory mode of an agent's conversation."""

    mode: str = Field(min_length=1, max_length=20)
    """A mode, or `guest` for `incognito`."""


class SetRecall(WireModel):
    """Switch recall for an agent's conversation."""

    recall: RecallSetting


class ConversationMemory(WireModel):
    """How a conversation uses memory."""

    dm: str
    agent_id: AgentName | None
    session_id: str | None
    """Its unfinished session, or None."""
    mode: MemoryMode
    """Mode of that session; without one, the mode in which the next session starts."""
    recall: bool
    """Whether the agent is shown anything from memory; never in mode `incognito`."""
    recall_setting: RecallSetting = "default"
