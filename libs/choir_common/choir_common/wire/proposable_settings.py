"""The keys of config.json that an agent may propose to change. Pure.

Checked by the agent's tool, so that the model gets an error, and again by control, which does not rely on
that. Only settings that can change while an agent runs are allowed, and none that decide who may talk,
where data goes, or which secret is used. See docs/design/approvals.md.
"""

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

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


def patch_leaves(patch: JsonObject) -> list[tuple[tuple[str, ...], JsonValue]]:
    """Return each path that a merge patch sets, with its value."""
    return _leaves((), patch)


def is_proposable(path: tuple[str, ...], agent_id: str) -> bool:
    """Return whether this agent may propose a new value for this path."""
    return any(_fits(path, pattern, agent_id) for pattern in PROPOSABLE)


def _leaves(path: tuple[str, ...], value: JsonValue) -> list[tuple[tuple[str, ...], JsonValue]]:
    if not isinstance(value, dict):
        return [(path, value)]
    return [leaf for name, inner in value.items() for leaf in _leaves((*path, name), inner)]


def _fits(path: tuple[str, ...], pattern: tuple[str, ...], agent_id: str) -> bool:
    expected = [agent_id if part == SELF else part for part in pattern]
    return len(path) == len(pattern) and all(
        part in (ANY, name) for part, name in zip(expected, path, strict=True)
    )
