"""Entries of the configuration by their names. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from choir_common.wire.config import Config, ModelConfig

T = TypeVar("T")


def find_entry(section: Mapping[str, T], name: str | None) -> T | None:
    """Return the entry with this name, or None.

    The entry may have been removed from the configuration since the session was bound to it.
    """
    return None if name is None else section.get(name)


def fallback_models(config: Config, *names: str | None) -> dict[str, ModelConfig]:
    """Return the models that these models fall back to, by name."""
    models = [find_entry(config.models, name) for name in names]
    fallbacks = [name for model in models if model for name in model.fallback]
    return {name: config.models[name] for name in fallbacks if name in config.models}
