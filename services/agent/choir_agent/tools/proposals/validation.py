"""Validation of proposals: tools, configuration changes, and no programs in either.

The tool's input schema has already checked which fields exist. A proposal is never executed, whatever it
contains; `reject_code` prevents a human from being shown a program as if it were ready to install.

Of the configuration, only settings that can change while an agent runs can be proposed. Settings that control
who may talk, where data is sent, or which secret is used cannot: a human edits those.
"""

from collections.abc import Collection

import orjson
from pydantic import BaseModel, JsonValue, ValidationError

from choir_agent.tools.model_view import model_name
from choir_agent.tools.tool import ToolFailed
from choir_common.json_schema import find_schema_fault
from choir_common.wire.config import Config, ModelConfig, VoiceProfileConfig, VoiceSettings
from choir_common.wire.config_parts import AgentBudgets, Budgets
from choir_common.wire.model import JsonObject
from choir_common.wire.proposable_settings import PROPOSABLE, SELF, is_proposable, patch_leaves
from choir_common.wire.repository_files import ToolManifestFile
from choir_common.wire.validation_messages import error_message, error_messages

_MARKS = ("```", "#!/", "<script")


def reject_code(where: str, value: JsonValue) -> None:
    """Raise ToolFailed if a text in `value` contains a program."""
    match value:
        case str():
            if any(mark in value.lower() for mark in _MARKS):
                raise ToolFailed(
                    "no_code",
                    f"{where} contains code. Describe in words what it should do; a human writes the code.",
                )
        case list():
            for number, item in enumerate(value):
                reject_code(f"{where}[{number}]", item)
        case dict():
            for name, item in value.items():
                reject_code(f"{where}.{name}", item)
        case _:
            pass


RESERVED_PREFIX = "choir."
_PATH_LOCK = "file:{path}"


def validate_tool_proposal(
    manifest: JsonObject, behaviour: str, known_tools: Collection[str]
) -> str:
    """Return the proposed tool's name.

    Raises ToolFailed with the field and the reason if no valid tool could be built from it.
    """
    llm, runtime = manifest["llm"], manifest["runtime"]
    if not isinstance(llm, dict) or not isinstance(runtime, dict):
        raise ToolFailed("bad_input", "manifest: llm and runtime are objects.")
    name = str(llm["name"])
    if name.startswith(RESERVED_PREFIX):
        raise ToolFailed(
            "bad_input", f"manifest.llm.name: the prefix {RESERVED_PREFIX} is reserved."
        )
    _check_form(manifest)
    if model_name(name) in {model_name(tool) for tool in known_tools}:
        raise ToolFailed("conflict", f"manifest.llm.name: a tool {name!r} already exists.")
    _check_parameters(llm["parameters"], runtime)
    reject_code("manifest", manifest)
    reject_code("behaviour", behaviour)
    return name


def _check_form(manifest: JsonObject) -> None:
    """Validate it as a tool manifest file, so that an approved proposal can be loaded."""
    try:
        ToolManifestFile.model_validate_json(orjson.dumps(manifest))
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "manifest")[:5])
        raise ToolFailed("bad_input", f"manifest.{faults}") from error


def _check_parameters(parameters: object, runtime: JsonObject) -> None:
    where = "manifest.llm.parameters"
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise ToolFailed("bad_input", f'{where}: must be a JSON Schema with "type": "object".')
    fault = find_schema_fault(parameters)
    if fault is not None:
        raise ToolFailed("bad_input", f"{where} is not a valid JSON Schema: {fault}")
    locks = runtime.get("locks", [])
    properties = parameters.get("properties", {})
    locks_path = isinstance(locks, list) and any(
        isinstance(lock, dict) and lock.get("resource") == _PATH_LOCK for lock in locks
    )
    if locks_path and not (isinstance(properties, dict) and "path" in properties):
        raise ToolFailed(
            "bad_input", f"manifest.runtime.locks: {_PATH_LOCK} needs a parameter `path`."
        )


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


def validate_config_patch(patch: JsonObject, agent_id: str) -> str:
    """Return the keys that a JSON merge patch would change, as a comma-separated list.

    Raises ToolFailed naming the key if it cannot be proposed or its value is invalid.
    """
    reject_code("patch", patch)
    leaves = patch_leaves(patch)
    if not leaves:
        raise ToolFailed("bad_input", "patch: changes nothing.")
    for path, value in leaves:
        if not is_proposable(path, agent_id):
            raise ToolFailed("bad_input", f"{_words(path)}: cannot be proposed. {_help(agent_id)}")
        _check_value(path, value)
    return ", ".join(_words(path) for path, _ in leaves)


def _check_value(path: tuple[str, ...], value: JsonValue) -> None:
    field = path[-1]
    if value is None:
        if field in _OPTIONAL:
            return
        raise ToolFailed("bad_input", f"{_words(path)}: cannot be removed, only changed.")
    if path[0] == "agents" and "budgets" not in path:
        if field in _NAMES and isinstance(value, str) and 0 < len(value) <= _MAX_NAME:
            return
        raise ToolFailed("bad_input", f"{_words(path)}: must be the name of a configured resource.")
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
        return f"unknown key; known keys: {', '.join(sorted(kind.model_fields))}"
    try:
        kind.model_validate({field: value})
    except ValidationError as error:
        return next((error_message(e) for e in error.errors() if e["loc"][:1] == (field,)), "")
    return ""


def _words(path: tuple[str, ...]) -> str:
    return ".".join(path)[:_MAX_NAME] or "patch"


def _help(agent_id: str) -> str:
    names = (_words(tuple(agent_id if p == SELF else p for p in pattern)) for pattern in PROPOSABLE)
    return f"Allowed: {', '.join(names)}."
