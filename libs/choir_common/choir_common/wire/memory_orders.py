"""What config.json wants of the memory service's rounds; no key is ever in it."""

from pydantic import Field

from choir_common.wire.config import ModelConfig, RetentionConfig
from choir_common.wire.model import AgentName, Wire


class MemoryOrders(Wire):
    """As the configuration stands now; memory reads it as a round begins."""

    model: ModelConfig | None = None
    """The language model that `memory.model` names; its key is known from memory's start."""
    retention: dict[AgentName, RetentionConfig] = Field(default_factory=dict)
    """The agents that do not keep everything for ever."""
