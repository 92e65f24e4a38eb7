"""Substitution of placeholders such as `{result.text}` in a score's texts and arguments. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_local.rehearsal.turn import RehearsalTurn

# Other braces are kept, because scores also contain JSON and code.
PLACEHOLDER = re.compile(r"\{((?:user|result|results|match)(?:\.[^{}\s]+)?)\}")


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """Values of the placeholders."""

    turn: RehearsalTurn
    groups: Mapping[str, str] = field(default_factory=dict)
    """Groups of the rule's regex, by number and name."""


def fill_text(template: str, values: TemplateValues) -> str:
    """Return `template` with its placeholders replaced; a missing value becomes `<no NAME>`."""
    return PLACEHOLDER.sub(lambda match: _as_text(_look_up(match.group(1), values)), template)


def fill_arguments(arguments: JsonObject, values: TemplateValues) -> JsonObject:
    """Replace placeholders in every string; a string that is only a placeholder gets the value's type."""
    return {name: _fill(value, values) for name, value in arguments.items()}


def _fill(value: JsonValue, values: TemplateValues) -> JsonValue:
    if isinstance(value, str):
        full_match = PLACEHOLDER.fullmatch(value)
        return _look_up(full_match.group(1), values) if full_match else fill_text(value, values)
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    if isinstance(value, dict):
        return fill_arguments(value, values)
    return value


def _look_up(path: str, values: TemplateValues) -> JsonValue:
    head, *rest = path.split(".")
    results = [result.text for result in values.turn.results]
    value: JsonValue
    match head:
        case "user":
            value = values.turn.user_text
        case "match":
            value = dict(values.groups)
        case "result":
            value = _parse(results[-1], rest) if results else None
        case _:
            value = [_parse(text, rest[1:]) for text in results]
    for part in rest:
        value = _step_into(value, part)
    return f"<no {path}>" if value is None else value


def _parse(text: str, rest: list[str]) -> JsonValue:
    """Parse a result as JSON if a part of it is requested; remarks about its pictures may follow it."""
    if not rest:
        return text
    try:
        parsed: JsonValue = json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return None
    return parsed


def _step_into(value: JsonValue, part: str) -> JsonValue:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return None


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
