"""Messages for invalid settings in config.json, with a suggestion for a misspelt one.

Pure. Used by control, which reads the file, and by choirctl, which checks and changes it.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from pydantic import JsonValue
from pydantic_core import ErrorDetails

from choir_common.i18n import _
from choir_common.wire.config_schema import config_schema
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_message

UNKNOWN = "extra_forbidden"


def setting_error_message(fault: ErrorDetails) -> str:
    """Return the message; it never quotes the value, which may be a misplaced secret."""
    if fault["type"] == UNKNOWN:
        return _suggestion(fault["loc"])
    return _("is empty; fill it in") if fault["input"] == "" else error_message(fault)


def setting_names(path: Sequence[str | int]) -> list[str]:
    """Return the setting names allowed in the section at `path`; empty where names are free."""
    schema = config_schema()
    nodes = list(_plain(schema, schema))
    for step in path:
        nodes = [
            inner
            for node in nodes
            for branch in _under(node, step)
            for inner in _plain(schema, branch)
        ]
    names: set[str] = set()
    for node in nodes:
        properties = node.get("properties")
        names |= set(properties) if isinstance(properties, dict) else set()
    return sorted(names)


def _suggestion(loc: tuple[int | str, ...]) -> str:
    names = setting_names(loc[:-1])
    near = get_close_matches(str(loc[-1]), names, 1)
    if near:
        return _("unknown setting (did you mean `{name}`?)").format(name=near[0])
    if names:
        return _("unknown setting; valid settings are {names}").format(names=", ".join(names))
    return _("unknown setting")


def _under(node: JsonObject, step: str | int) -> Iterator[JsonValue]:
    properties = node.get("properties")
    if isinstance(properties, dict) and step in properties:
        yield properties[str(step)]
    patterns = node.get("patternProperties")
    if isinstance(patterns, dict):
        yield from patterns.values()
    for free in ("additionalProperties", "items"):
        if free in node:
            yield node[free]


def _plain(schema: JsonObject, node: JsonValue) -> Iterator[JsonObject]:
    """Yield the object schemas that a schema node stands for, following references and choices."""
    if not isinstance(node, dict):
        return
    reference = node.get("$ref")
    if isinstance(reference, str):
        definitions = schema["$defs"]
        assert isinstance(definitions, dict), "a schema with references has definitions"
        yield from _plain(schema, definitions[reference.rpartition("/")[2]])
    for choice in ("anyOf", "oneOf", "allOf"):
        branch = node.get(choice)
        for inner in branch if isinstance(branch, list) else ():
            yield from _plain(schema, inner)
    yield node
