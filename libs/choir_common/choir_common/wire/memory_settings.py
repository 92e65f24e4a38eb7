"""The part of config.json that the memory service's maintenance uses; it never contains a key."""

from pydantic import Field

from choir_common.wire.config import ModelConfig, RetentionConfig
from choir_common.wire.model import AgentName, WireModel


class MemoryServiceConfig(WireModel):
    """Current settings; memory reads them at the start of each maintenance pass."""

    model: ModelConfig | None = None
    """The language model that `memory.model` names; memory gets its key at startup."""
    retention: dict[AgentName, RetentionConfig] = Field(default_factory=dict)
    """Retention of the agents that do not keep everything."""
