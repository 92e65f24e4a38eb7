"""Validate a proposed tool: a well-formed manifest and no program.

Called by `choir.propose.tool`. The tool's input schema has already checked which fields exist.
"""

from collections.abc import Collection

import orjson
from pydantic import ValidationError

from choir_agent.skills.shapes import schema_fault
from choir_agent.tools.model_view import model_name_of
from choir_agent.tools.proposals.plain_words import refuse_programs
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.faults import faults_of
from choir_common.wire.json import JsonObject
from choir_common.wire.tool_manifest import ToolManifestFile

OURS = "choir."
_PATH_LOCK = "file:{path}"


def check_tool(manifest: JsonObject, behaviour: str, known: Collection[str]) -> str:
    """Return the proposed tool's name.

    Raises ToolFailed with the field and the reason if no valid tool could be built from it.
    """
    llm, runtime = manifest["llm"], manifest["runtime"]
    if not isinstance(llm, dict) or not isinstance(runtime, dict):
        raise ToolFailed("bad_input", "manifest: llm and runtime are objects.")
    name = str(llm["name"])
    if name.startswith(OURS):
        raise ToolFailed(
            "bad_input", f"manifest.llm.name: names that begin with {OURS} are Choir's."
        )
    _check_form(manifest)
    if model_name_of(name) in {model_name_of(taken) for taken in known}:
        raise ToolFailed("conflict", f"manifest.llm.name: there is a tool {name!r} already.")
    _check_parameters(llm["parameters"], runtime)
    refuse_programs("manifest", manifest)
    refuse_programs("behaviour", behaviour)
    return name


def _check_form(manifest: JsonObject) -> None:
    """Validate it as a tool manifest file, so that an approved proposal can be loaded."""
    try:
        ToolManifestFile.model_validate_json(orjson.dumps(manifest))
    except ValidationError as error:
        words = "; ".join(faults_of(error, "manifest")[:5])
        raise ToolFailed("bad_input", f"manifest.{words}") from error


def _check_parameters(parameters: object, runtime: JsonObject) -> None:
    where = "manifest.llm.parameters"
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise ToolFailed("bad_input", f'{where}: a JSON Schema with "type": "object" is needed.')
    fault = schema_fault(parameters)
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
