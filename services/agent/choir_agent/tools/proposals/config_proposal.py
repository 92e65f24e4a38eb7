"""Validate a proposed configuration change: the keys it may touch, and their values.

Called by `choir.propose.config_change`. Only settings that can change while an agent runs can be
proposed. Settings that control who may talk, where data is sent, or which secret is used cannot: a
human edits those.
"""

from pydantic import BaseModel, JsonValue, ValidationError

from choir_agent.tools.proposals.plain_words import refuse_programs
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.budgets import AgentBudgets, Budgets
from choir_common.wire.config import Config, ModelConfig, VoiceProfileConfig, VoiceSettings
from choir_common.wire.faults import fault_in_words
from choir_common.wire.json import JsonObject
from choir_common.wire.proposals import PROPOSABLE, SELF, leaves, may_be_proposed

_NAMES = {"llm", "core_llm", "voice_profile", "search"}
_OPTIONAL = {"temperature", "reasoning_effort", "core_llm", "voice_profile", "search"}
"""Keys that a null may remove."""
_KINDS: dict[str, type[BaseModel]] = {
    "agents": AgentBudgets,
    "budgets": Budgets,
    "models": ModelConfig,
    "voice_profiles": VoiceProfileConfig,
}
_MAX_NAME = 200


def check_config(patch: JsonObject, agent_id: str) -> str:
    """Return the keys that a JSON merge patch would change, as a comma-separated list.

    Raises ToolFailed naming the key if it cannot be proposed or its value is invalid.
    """
    refuse_programs("patch", patch)
    found = leaves(patch)
    if not found:
        raise ToolFailed("bad_input", "patch: it changes nothing.")
    for path, value in found:
        if not may_be_proposed(path, agent_id):
            raise ToolFailed(
                "bad_input", f"{_words(path)}: this cannot be proposed. {_help(agent_id)}"
            )
        _check_value(path, value)
    return ", ".join(_words(path) for path, _ in found)


def _check_value(path: tuple[str, ...], value: JsonValue) -> None:
    field = path[-1]
    if value is None:
        if field in _OPTIONAL:
            return
        raise ToolFailed("bad_input", f"{_words(path)}: it cannot be taken away, only changed.")
    if path[0] == "agents" and "budgets" not in path:
        if field in _NAMES and isinstance(value, str) and 0 < len(value) <= _MAX_NAME:
            return
        raise ToolFailed(
            "bad_input", f"{_words(path)}: the name of a configured resource is needed."
        )
    fault = _fault(_kind_of(path), field, value)
    if fault:
        raise ToolFailed("bad_input", f"{_words(path)}: {fault}")


def _kind_of(path: tuple[str, ...]) -> type[BaseModel]:
    """Return the config model that contains the path's last key as a field."""
    if "voice_settings" in path:
        return VoiceSettings
    return _KINDS.get(path[0], Config)


def _fault(kind: type[BaseModel], field: str, value: JsonValue) -> str:
    """Return why the value is invalid for that one field; errors of other fields are ignored."""
    if field not in kind.model_fields:
        return f"there is no such key; those are {', '.join(sorted(kind.model_fields))}"
    try:
        kind.model_validate({field: value})
    except ValidationError as error:
        return next((fault_in_words(e) for e in error.errors() if e["loc"][:1] == (field,)), "")
    return ""


def _words(path: tuple[str, ...]) -> str:
    return ".".join(path)[:_MAX_NAME] or "patch"


def _help(agent_id: str) -> str:
    known = (_words(tuple(agent_id if p == SELF else p for p in pattern)) for pattern in PROPOSABLE)
    return f"What can be: {', '.join(known)}."
