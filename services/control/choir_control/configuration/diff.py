"""Differences between two configurations, with the action that each one needs to take effect.

Pure functions. The categories are defined in `choir_common.wire.config_effects`; see
docs/design/configuration.md.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from choir_common.wire.config import AgentConfig, Config
from choir_common.wire.config_api import ConfigChange
from choir_common.wire.config_effects import RESTART_NOTE, change_category

# A change of an entry in these sections concerns only the agents whose defaults reference it. A
# change anywhere else concerns every agent.
REFERENCED_SECTIONS = frozenset(
    (
        *("workspaces", "models", "dms", "gateways", "voice_profiles", "tts", "git_identities"),
        *("notion_integrations", "email_accounts", "search", "transcription"),
    )
)


def diff_configs(before: Config, after: Config) -> tuple[ConfigChange, ...]:
    """Return every difference, in the order of the sections in the file."""
    return tuple(
        _for_memory(_categorised(path, old, new, _concerned(path, before, after)), before, after)
        for path, old, new in _walk(
            (), before.model_dump(mode="json"), after.model_dump(mode="json")
        )
    )


def _categorised(
    path: tuple[str, ...], old: JsonValue, new: JsonValue, agents: tuple[str, ...]
) -> ConfigChange:
    dotted_path = ".".join(path)
    whole_agent = len(path) == 2 and path[0] == "agents"
    category, note = change_category(dotted_path, agents)
    if whole_agent and old is None:
        category, note = "new-agent", f"can be started at once: choirctl agent start {path[1]}"
    elif whole_agent:
        category, note = (
            "removed-agent",
            (f"if it is running, it continues until it is stopped: choirctl agent stop {path[1]}"),
        )
    elif len(path) == 2 and path[0] in REFERENCED_SECTIONS and (old is None or new is None):
        # No agent references an entry that was just added or just removed.
        category, note = "hot-reload", ""
    return ConfigChange(
        path=dotted_path,
        kind="added" if old is None else "removed" if new is None else "changed",
        category=category,
        agents=agents,
        before=old,
        after=new,
        note=note,
    )


def _for_memory(change: ConfigChange, before: Config, after: Config) -> ConfigChange:
    """Mark changes of the memory model's key as "restart-required".

    The memory service receives the key of its model only at startup.
    """
    was, now = (config.models.get(config.memory.model or "") for config in (before, after))
    own = ("memory.model", *(f"models.{config.memory.model}.secret" for config in (before, after)))
    if change.path not in own or now is None or now.secret in (None, was and was.secret):
        return change
    note = f"the key of memory's model {RESTART_NOTE}"
    return change.model_copy(update={"category": "restart-required", "note": note})


def _concerned(path: tuple[str, ...], before: Config, after: Config) -> tuple[str, ...]:
    """Return the agents that a path affects, before or after the change."""
    if path[0] == "agents":
        return path[1:2]
    agent_ids = {
        agent_id
        for config in (before, after)
        for agent_id, agent in config.agents.items()
        if path[0] not in REFERENCED_SECTIONS or _leads_to(config, agent, path)
    }
    return tuple(sorted(agent_ids))


def _leads_to(config: Config, agent: AgentConfig, path: tuple[str, ...]) -> bool:
    """Return True if the agent's defaults reference the entry at a path, directly or indirectly."""
    if len(path) < 2:
        return False
    section, name = path[0], path[1]
    defaults = agent.defaults
    dms = (defaults.dm, *agent.conversations)
    gateways = tuple(config.dms[name].gateway for name in dms if name in config.dms)
    voice = config.voice_profiles.get(defaults.voice_profile or "")
    names = {
        "workspaces": (defaults.workspace,),
        "models": _models_of(config, defaults.llm, defaults.core_llm, defaults.vision_llm),
        "dms": dms,
        "gateways": gateways,
        "voice_profiles": (defaults.voice_profile,),
        "tts": (voice and voice.tts,),
        "git_identities": (defaults.git_identity, agent.repo.git_identity),
        "notion_integrations": (defaults.notion,),
        "email_accounts": (defaults.email,),
        "search": (defaults.search or min(config.search, default=None),),
        "transcription": (defaults.transcription or min(config.transcription, default=None),),
    }
    return name in names[section]


def _models_of(config: Config, *names: str | None) -> tuple[str, ...]:
    """Return the names of models, with those that they fall back to."""
    own = [name for name in names if name is not None]
    models = [config.models[name] for name in own if name in config.models]
    return (*own, *(name for model in models for name in model.fallback))


def _walk(
    path: tuple[str, ...], old: JsonValue, new: JsonValue
) -> Iterator[tuple[tuple[str, ...], JsonValue, JsonValue]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _walk((*path, key), old.get(key), new.get(key))
    else:
        yield path, old, new
