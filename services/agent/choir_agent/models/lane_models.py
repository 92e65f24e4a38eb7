"""The models of a lane: its own, and those that it falls back to."""

from dataclasses import dataclass

from choir_agent.log.session_state import EDGE_LANE
from choir_common.wire.config import AgentSettings, ModelConfig


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model and its name in config.json."""

    name: str
    config: ModelConfig


def model_for_lane(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return a lane's model: the edge lane's model, or `core_model` for core jobs if it is configured."""
    return settings.model if lane == EDGE_LANE else settings.core_model or settings.model


def model_name_for_lane(settings: AgentSettings, lane: str) -> str:
    """Return the name of a lane's model in config.json."""
    is_core = lane != EDGE_LANE and settings.core_model is not None
    return (settings.core_model_name if is_core else None) or settings.model_name


def models_for_lane(settings: AgentSettings, lane: str) -> tuple[NamedModel, ...]:
    """Return a lane's model, followed by the models that it falls back to."""
    first = model_for_lane(settings, lane)
    names = [name for name in first.fallback if name in settings.fallback_models]
    return (
        NamedModel(model_name_for_lane(settings, lane), first),
        *(NamedModel(name, settings.fallback_models[name]) for name in names),
    )
