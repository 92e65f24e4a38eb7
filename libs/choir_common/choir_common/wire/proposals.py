"""Which keys of config.json an agent may propose to change (spec 8.10): pure.

Held to by the agent's tool, so that the model is told, and by control, which does not rely on that. Only
what can change while an agent runs, and nothing that says who may talk, where data goes, or which secret is
used.
"""

from pydantic import JsonValue

from choir_common.wire.json import JsonObject

ANY = "*"
SELF = "<this agent>"
PROPOSABLE: tuple[tuple[str, ...], ...] = (
    ("budgets", ANY),
    ("models", ANY, "temperature"),
    ("models", ANY, "reasoning_effort"),
    ("models", ANY, "context_window"),
    ("models", ANY, "timeout_ms"),
    ("voice_profiles", ANY, "voice_id"),
    ("voice_profiles", ANY, "output_format"),
    ("voice_profiles", ANY, "voice_settings", ANY),
    ("agents", SELF, "defaults", "llm"),
    ("agents", SELF, "defaults", "core_llm"),
    ("agents", SELF, "defaults", "voice_profile"),
    ("agents", SELF, "defaults", "search"),
    ("agents", SELF, "budgets", ANY),
    ("event_window",),
    ("compaction_threshold",),
    ("summary_timeout_ms",),
    ("rate_limit_retry_ms",),
)


def leaves(patch: JsonObject) -> list[tuple[tuple[str, ...], JsonValue]]:
    """Return each place a merge patch sets, with the value."""
    return _leaves((), patch)


def may_be_proposed(path: tuple[str, ...], agent_id: str) -> bool:
    """Tell whether this agent may propose another value for this place."""
    return any(_fits(path, pattern, agent_id) for pattern in PROPOSABLE)


def _leaves(path: tuple[str, ...], value: JsonValue) -> list[tuple[tuple[str, ...], JsonValue]]:
    if not isinstance(value, dict):
        return [(path, value)]
    return [leaf for name, inner in value.items() for leaf in _leaves((*path, name), inner)]


def _fits(path: tuple[str, ...], pattern: tuple[str, ...], agent_id: str) -> bool:
    wanted = [agent_id if part == SELF else part for part in pattern]
    return len(path) == len(pattern) and all(
        part in (ANY, name) for part, name in zip(wanted, path, strict=True)
    )
