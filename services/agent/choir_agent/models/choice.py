"""Choice of a lane's model, and its names. Pure. Called by the lanes and by compaction."""

from choir_agent.log.state import EDGE
from choir_common.wire.config import AgentSettings, ModelConfig


def model_of(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return a lane's model: the edge lane's model, or `core_model` for core jobs if it is configured."""
    return settings.model if lane == EDGE else settings.core_model or settings.model


def name_of(settings: AgentSettings, lane: str) -> str:
    """Return the name of a lane's model in config.json."""
    is_core = lane != EDGE and settings.core_model is not None
    return (settings.core_model_name if is_core else None) or settings.model_name


def origin_of(model: ModelConfig) -> str:
    """Return the identifier of a model, for provider fields that only this model understands."""
    return f"{model.model} at {model.endpoint}"
