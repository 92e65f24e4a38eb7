"""Choose the model a lane thinks with, and name it. Called by the lanes and by compaction; pure."""

from choir_agent.log.state import EDGE
from choir_common.wire.config import AgentSettings, ModelConfig


def model_of(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return a lane's model: a fast one for the edge, a deep one for core jobs (spec 7.1)."""
    return settings.model if lane == EDGE else settings.core_model or settings.model


def name_of(settings: AgentSettings, lane: str) -> str:
    """Return the name that config.json has for a lane's model."""
    is_core = lane != EDGE and settings.core_model is not None
    return (settings.core_model_name if is_core else None) or settings.model_name


def origin_of(model: ModelConfig) -> str:
    """Return what identifies a model for the fields that it alone can read."""
    return f"{model.model} at {model.endpoint}"
