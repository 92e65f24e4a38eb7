"""The models of a lane, and those that they fall back to."""

from choir_common.lanes import is_edge
from choir_common.wire.config import AgentSettings, ModelConfig
from choir_models.abilities import sees_pictures
from choir_models.fallback import NamedModel


def model_for_lane(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return a lane's model: the edge lane's model, or `core_model` for core jobs if it is configured."""
    return settings.model if is_edge(lane) else settings.core_model or settings.model


def model_name_for_lane(settings: AgentSettings, lane: str) -> str:
    """Return the name of a lane's model in config.json."""
    has_core_model = not is_edge(lane) and settings.core_model is not None
    return (settings.core_model_name if has_core_model else None) or settings.model_name


def models_for_lane(settings: AgentSettings, lane: str) -> tuple[NamedModel, ...]:
    """Return a lane's model, followed by the models that it falls back to."""
    first = NamedModel(model_name_for_lane(settings, lane), model_for_lane(settings, lane))
    return _with_fallbacks(settings, first)


def all_models(settings: AgentSettings) -> dict[str, ModelConfig]:
    """Return all models of the agent, by their names in config.json."""
    candidates = (
        (settings.core_model_name, settings.core_model),
        (settings.vision_model_name, settings.vision_model),
        (settings.wake_up_model_name, settings.wake_up_model),
        (settings.model_name, settings.model),
    )
    own = {name: model for name, model in candidates if name and model is not None}
    return {**settings.fallback_models, **own}


def wake_up_models(settings: AgentSettings) -> tuple[NamedModel, ...]:
    """Return the model of quiet wake-ups, followed by its fallbacks; none if none is set."""
    if settings.wake_up_model is None:
        return ()
    return _with_fallbacks(
        settings, NamedModel(settings.wake_up_model_name or "", settings.wake_up_model)
    )


def vision_models(settings: AgentSettings) -> tuple[NamedModel, ...]:
    """Return the model that describes pictures, followed by its fallbacks that see; none if none is set."""
    if settings.vision_model is None:
        return ()
    first = NamedModel(settings.vision_model_name or "", settings.vision_model)
    _, *others = _with_fallbacks(settings, first)
    return (first, *(model for model in others if sees_pictures(model.config)))


def _with_fallbacks(settings: AgentSettings, first: NamedModel) -> tuple[NamedModel, ...]:
    names = [name for name in first.config.fallback if name in settings.fallback_models]
    return (first, *(NamedModel(name, settings.fallback_models[name]) for name in names))
