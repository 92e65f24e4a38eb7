"""JSON Schema and reference table of config.json, generated from the models.

Used by control (`GET /v1/config/schema`) and `choirctl config schema`. A field's description is the
attribute docstring in the models. It is read from the source on demand, because no service needs it to run.
A test keeps `docs/config.schema.json` and `docs/config.md` up to date.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from choir_common.wire import (
    backup_config,
    channel_config,
    config,
    config_parts,
    harness_config,
    mcp_config,
    memory_config,
    model_config,
    money,
    people_config,
    policy,
    skill_config,
    speech_config,
    trigger_config,
)
from choir_common.wire.config import Config
from choir_common.wire.config_effects import RESTART_NOTE, change_category
from choir_common.wire.model import JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME_PLACEHOLDER = "NAME"

HEAD = """\
# config.json, field by field

Generated from the models with `choirctl config schema --markdown`; a test keeps it up to date. `NAME` is a
name of your choice. *When* is when a change takes effect: **apply**, after `choirctl config load` and
`choirctl config apply`; **agent**, after a restart of the agents concerned (or `agent update`); **Choir**,
after a restart of Choir. `docs/config.schema.json` is the same for editors: set it as `"$schema"`.

| field | type | default | limits | when | meaning |
|---|---|---|---|---|---|
"""


def config_schema() -> JsonObject:
    """Return the JSON Schema of config.json, with a description of every field."""
    schema = Config.model_json_schema()
    definitions = schema.get("$defs", {})
    for name, shape in ((Config.__name__, schema), *definitions.items()):
        texts = _texts().get(name, {})
        for field, described in shape.get("properties", {}).items():
            text = texts.get("described_by" if field == "$schema" else field)
            if text:
                described["description"] = text
    return cast(JsonObject, {"$schema": DIALECT, **schema, "title": "Choir's config.json"})


def config_reference() -> str:
    """Return the table of all fields as Markdown."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows((), Config))


def undocumented_fields() -> list[str]:
    """Return the fields without a description; a test requires that there are none."""
    return [path for path, *_, text in _rows((), Config) if not text]


def _rows(path: tuple[str, ...], model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        key = field.alias or name
        key_path = (*path, key)
        described = schema["properties"][key]
        yield (
            f"`{'.'.join(key_path)}`",
            _type_of(described),
            "required" if field.is_required() else _default_of(described),
            _limits_of(described),
            _when(key_path),
            _texts()[model.__name__].get(name, ""),
        )
        inner, container = _inner(field.annotation)
        if inner is None:
            continue
        if container is dict:
            yield from _rows((*key_path, NAME_PLACEHOLDER), inner)
        elif container is tuple:
            yield from _rows((*path, f"{key}[]"), inner)
        else:
            yield from _rows(key_path, inner)


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, object]:
    """Return the model inside a field, and the mapping or list type that contains it, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, None
    arguments = getattr(annotation, "__args__", ())
    for argument in arguments:
        if isinstance(argument, type) and issubclass(argument, BaseModel):
            return argument, getattr(annotation, "__origin__", None)
    return None, None


def _type_of(described: dict[str, Any]) -> str:
    if "anyOf" in described:
        return " or ".join(_type_of(option) for option in described["anyOf"])
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"])
    if "const" in described:
        return f"`{described['const']}`"
    if described.get("type") == "array":
        return f"list of {_type_of(described['items'])}"
    if "additionalProperties" in described:
        return "object by name"
    return str(described.get("type", "object"))


def _default_of(described: dict[str, Any]) -> str:
    default = described.get("default")
    if isinstance(default, dict) or "default" not in described:
        return ""
    literal_names = {None: "none", True: "true", False: "false"}
    if default is None or isinstance(default, bool):
        return literal_names[default]
    if isinstance(default, list):
        return ", ".join(f"`{item}`" for item in default)
    return f"`{default}`"


def _limits_of(described: dict[str, Any]) -> str:
    for option in (described, *described.get("anyOf", ())):
        low = option.get("minimum", option.get("exclusiveMinimum"))
        high = option.get("maximum")
        if low is not None:
            least = f"above {low}" if "exclusiveMinimum" in option else f"{low}"
            return f"{least} to {high}" if high is not None else f"{least} or more"
    return ""


def _when(path: tuple[str, ...]) -> str:
    category, note = change_category(".".join(path))
    if category == "hot-reload":
        return "apply"
    return "Choir" if RESTART_NOTE in note else "agent"


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Return the attribute docstring of each field, by class and field."""
    docstrings: dict[str, dict[str, str]] = {}
    for module in (
        backup_config,
        channel_config,
        config,
        config_parts,
        harness_config,
        mcp_config,
        memory_config,
        model_config,
        money,
        people_config,
        policy,
        skill_config,
        speech_config,
        trigger_config,
    ):
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                docstrings[node.name] = dict(_texts_of(node))
    return docstrings


def _texts_of(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, " ".join(below.value.value.split())
