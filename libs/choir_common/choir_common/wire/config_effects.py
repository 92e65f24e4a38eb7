"""Mapping of each path of config.json to what a change of it requires. Pure.

Used by control (`config diff`) and by `config_schema` (the table in `docs/config.md`). See
docs/design/configuration.md.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from choir_common.wire.config_api import Category

# Bound to a session when it starts.
AT_AGENT_START = (
    "agents.*.defaults.workspace",
    "agents.*.defaults.llm",
    "agents.*.defaults.dm",
    "agents.*.defaults.voice_profile",
    "agents.*.defaults.git_identity",
    "agents.*.defaults.notion",
    "agents.*.defaults.email",
    "workspaces.*.path",
)
# Tools, skills and identity are part of the image.
AT_UPDATE = ("agents.*.repo.*",)
AT_UPDATE_ALL = ("global_repo", "global_repo.*")
# Read at startup by services other than control.
RESTART_NOTE = "takes effect after a restart of Choir: choirctl down, then up"
# The vectors of two models cannot be compared, so all documents are embedded again.
EMBEDDING_PATHS = ("embedding", "embedding.model", "embedding.dimensions")
# Only control reads them.
EMBEDDING_PRICES = ("embedding.prices", "embedding.prices.*")
AT_CHOIR_START = (
    *("embedding", "embedding.*", "postgres", "postgres.*"),
    "transcription.*.model_dir",
)
# Control deletes expired records once an hour.
AT_HOURLY_CLEANUP = ("agents.*.retention.log", "retention", "retention.*")
CLEANUP_NOTE = "control deletes older records within an hour"
# Memory reads these at the start of each maintenance pass.
AT_MEMORY_MAINTENANCE = (
    *("memory.model", "agents.*.retention", "agents.*.retention.*"),
    *("agents.*.memory_prompts", "agents.*.memory_prompts.*"),
)
MAINTENANCE_NOTE = (
    "memory uses it from its next maintenance pass on: within an hour, unless CHOIR_ROUND_S is set"
)


def change_category(path: str, agents: Sequence[str] = ()) -> tuple[Category, str]:
    """Return the category of a change at `path`, and the instruction for the agents it affects."""
    who = ", ".join(agents) or "AGENT"
    if _matches(path, EMBEDDING_PRICES):
        return "hot-reload", ""
    if _matches(path, AT_AGENT_START):
        return "restart-required", (
            f"takes effect when the agent is restarted: choirctl agent stop {who}, then start"
        )
    if _matches(path, AT_UPDATE):
        return "restart-required", f"use: choirctl agent update {who}"
    if _matches(path, AT_UPDATE_ALL):
        return "restart-required", "use: choirctl agent update-all"
    if _matches(path, EMBEDDING_PATHS):
        return "restart-required", (
            f"{RESTART_NOTE}; memory then builds the new model's vectors and searches the old ones "
            "until all are complete"
        )
    if _matches(path, AT_CHOIR_START):
        return "restart-required", RESTART_NOTE
    if _matches(path, AT_HOURLY_CLEANUP):
        return "hot-reload", CLEANUP_NOTE
    return "hot-reload", MAINTENANCE_NOTE if _matches(path, AT_MEMORY_MAINTENANCE) else ""


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
