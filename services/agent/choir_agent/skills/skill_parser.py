"""Parser and validator of SkillSpecs in JSON, with exact error locations."""

import json
import re
from collections.abc import Collection, Mapping
from typing import NoReturn

from choir_agent.skills.skill_spec import (
    START_TOOL,
    SkillSpec,
    StateSpec,
    Transition,
    find_machine_fault,
)
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.json_schema import find_schema_fault
from choir_common.wire.model import JsonObject

MAX_SKILL_BYTES = 1_000_000
MAX_TEXT = 20_000
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOP = {"name", "description", "initial_state", "states", "max_steps"}
_TOP_OPTIONAL = {"interruptible", "input_schema", "output_schema"}
_STATE = {"objective", "allowed_tools", "transitions", "terminal"}
_TERMINAL = {"objective", "terminal"}
_TRANSITION = {"on", "to"}
Fields = Mapping[str, object]


class InvalidSkill(InvalidRequest):
    """The skill is not well-formed; `field` is a path such as states.plan.transitions[0].to."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def parse_skill(text: str | bytes, known_tools: Collection[str]) -> SkillSpec:
    """Parse a skill from JSON text.

    Raises InvalidSkill if the text is not JSON or not a well-formed skill that uses existing tools.
    """
    if len(text) > MAX_SKILL_BYTES:
        raise InvalidSkill(
            "file",
            _("has more than {max_skill_bytes} bytes").format(max_skill_bytes=MAX_SKILL_BYTES),
        )
    try:
        # By default json accepts duplicate keys and NaN; a SkillSpec must not contain them.
        document = json.loads(
            text, object_pairs_hook=_reject_duplicate_keys, parse_constant=_constant
        )
    except (ValueError, RecursionError) as error:
        raise InvalidSkill("file", _("is not JSON: {error}").format(error=error)) from error
    return parse_skill_document(document, known_tools)


def parse_skill_document(document: object, known_tools: Collection[str]) -> SkillSpec:
    """Parse a skill from a JSON document.

    Raises InvalidSkill if the document is not a well-formed skill that uses existing tools.
    """
    fields = _object("skill", document)
    _reject_unknown_fields("", fields, _TOP | _TOP_OPTIONAL)
    for missing in sorted(_TOP - fields.keys()):
        raise InvalidSkill(missing, _("is missing"))
    raw = _object("states", fields["states"])
    states = {_name("states", name): _state(name, raw[name], known_tools) for name in raw}
    initial = _name("initial_state", fields["initial_state"])
    fault = find_machine_fault(initial, states)
    if fault is not None:
        raise InvalidSkill(*fault)
    return SkillSpec(
        name=_name("name", fields["name"]),
        description=_text("description", fields["description"]),
        initial_state=initial,
        states=states,
        max_steps=_count("max_steps", fields["max_steps"]),
        interruptible=_flag("interruptible", fields.get("interruptible", True)),
        input_schema=_schema("input_schema", fields.get("input_schema")),
        output_schema=_schema("output_schema", fields.get("output_schema")),
    )


def _state(name: str, value: object, known_tools: Collection[str]) -> StateSpec:
    where = f"states.{name}"
    fields = _object(where, value)
    _reject_unknown_fields(where, fields, _STATE)
    if _flag(f"{where}.terminal", fields.get("terminal", False)):
        for field in fields.keys() - _TERMINAL:
            raise InvalidSkill(
                f"{where}.{field}", _("a terminal state has neither tools nor transitions")
            )
        objective = fields.get("objective")
        text = "" if objective is None else _text(f"{where}.objective", objective)
        return StateSpec(objective=text, terminal=True)
    for missing in sorted({"objective", "transitions"} - fields.keys()):
        raise InvalidSkill(f"{where}.{missing}", _("is missing; only a terminal state may omit it"))
    return StateSpec(
        objective=_text(f"{where}.objective", fields["objective"]),
        allowed_tools=_tools(
            f"{where}.allowed_tools", fields.get("allowed_tools", []), known_tools
        ),
        transitions=_transitions(f"{where}.transitions", fields["transitions"]),
    )


def _tools(where: str, value: object, known_tools: Collection[str]) -> tuple[str, ...]:
    tools: list[str] = []
    for number, item in enumerate(_list(where, value)):
        field = f"{where}[{number}]"
        tool = _text(field, item)
        if tool == START_TOOL:
            raise InvalidSkill(field, _("a skill cannot start a skill"))
        if tool not in known_tools:
            raise InvalidSkill(
                field, _("there is no tool {tool!r} in this agent").format(tool=tool)
            )
        if tool in tools:
            raise InvalidSkill(field, _("{tool!r} is named twice").format(tool=tool))
        tools.append(tool)
    return tuple(tools)


def _transitions(where: str, value: object) -> tuple[Transition, ...]:
    transitions: list[Transition] = []
    for number, item in enumerate(_list(where, value)):
        field = f"{where}[{number}]"
        fields = _object(field, item)
        _reject_unknown_fields(field, fields, _TRANSITION)
        for missing in sorted(_TRANSITION - fields.keys()):
            raise InvalidSkill(f"{field}.{missing}", _("is missing"))
        on = _name(f"{field}.on", fields["on"])
        if any(on == earlier.on for earlier in transitions):
            raise InvalidSkill(f"{field}.on", _("{on!r} has a transition already").format(on=on))
        transitions.append(Transition(on, _name(f"{field}.to", fields["to"])))
    if not transitions:
        raise InvalidSkill(where, _("is empty; only a terminal state may have no transitions"))
    return tuple(transitions)


def _object(where: str, value: object) -> Fields:
    if not isinstance(value, dict):
        raise InvalidSkill(where, _("must be an object, not {kind}").format(kind=_kind(value)))
    return value


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidSkill(where, _("must be a list, not {kind}").format(kind=_kind(value)))
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSkill(where, _("must be a string, not {kind}").format(kind=_kind(value)))
    if not value.strip() or len(value) > MAX_TEXT:
        raise InvalidSkill(
            where, _("must have 1 to {max_text} characters").format(max_text=MAX_TEXT)
        )
    return value


def _name(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSkill(where, _("must be a string, not {kind}").format(kind=_kind(value)))
    if not NAME.fullmatch(value):
        rule = "1 to 64 characters of a-z, 0-9, _ and -, starting with a letter or digit"
        raise InvalidSkill(
            where,
            _("{value!r} is not a valid name: use {rule}").format(value=value[:80], rule=rule),
        )
    return value


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidSkill(where, _("must be true or false, not {kind}").format(kind=_kind(value)))
    return value


def _count(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSkill(where, _("must be a whole number, 1 or more"))
    return value


def _schema(where: str, value: object) -> JsonObject | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidSkill(
            where, _("must be a JSON Schema as an object, not {kind}").format(kind=_kind(value))
        )
    fault = find_schema_fault(value)
    if fault is not None:
        raise InvalidSkill(where, _("is not a valid JSON Schema: {fault}").format(fault=fault))
    return value


def _reject_unknown_fields(where: str, fields: Fields, known_fields: set[str]) -> None:
    for field in fields:
        if field not in known_fields:
            path = f"{where}.{field}" if where else field
            raise InvalidSkill(
                path,
                _("is not a known field; known fields are {known_fields}").format(
                    known_fields=", ".join(sorted(known_fields))
                ),
            )


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", str: "a string", list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "a number")


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidSkill(double, _("is duplicated in the object"))
    return fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")
