"""Parser and validator of SkillSpecs in JSON, with exact error locations.

Called by `registry` for each file at startup, and for a proposed skill before a human is asked to approve
it.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import NoReturn

from choir_agent.skills.shapes import schema_fault
from choir_agent.skills.spec import START_TOOL, SkillSpec, StateSpec, Transition
from choir_agent.skills.well_formed import machine_fault
from choir_common.errors import BadInput
from choir_common.wire.json import JsonObject

MAX_SKILL_BYTES = 1_000_000
MAX_TEXT = 20_000
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOP = {"name", "description", "initial_state", "states", "max_steps"}
_TOP_OPTIONAL = {"interruptible", "input_schema", "output_schema"}
_STATE = {"objective", "allowed_tools", "transitions", "terminal"}
_TERMINAL = {"objective", "terminal"}
_TRANSITION = {"on", "to"}
Fields = Mapping[str, object]


class BadSkill(BadInput):
    """The skill is not well-formed; `field` is a path such as states.plan.transitions[0].to."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def parse_skill(text: str | bytes, known_tools: Collection[str]) -> SkillSpec:
    """Parse a skill from JSON text.

    Raises BadSkill if the text is not JSON or not a well-formed skill that uses existing tools.
    """
    if len(text) > MAX_SKILL_BYTES:
        raise BadSkill("file", f"has more than {MAX_SKILL_BYTES} bytes")
    try:
        # By default json accepts duplicate keys and NaN; a SkillSpec must not contain them.
        document = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise BadSkill("file", f"is not JSON: {error}") from error
    return read_skill(document, known_tools)


def read_skill(document: object, known_tools: Collection[str]) -> SkillSpec:
    """Parse a skill from a JSON document.

    Raises BadSkill if the document is not a well-formed skill that uses existing tools.
    """
    fields = _object("skill", document)
    _only("", fields, _TOP | _TOP_OPTIONAL)
    for missing in sorted(_TOP - fields.keys()):
        raise BadSkill(missing, "is missing")
    raw = _object("states", fields["states"])
    states = {_name("states", name): _state(name, raw[name], known_tools) for name in raw}
    initial = _name("initial_state", fields["initial_state"])
    fault = machine_fault(initial, states)
    if fault is not None:
        raise BadSkill(*fault)
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
    _only(where, fields, _STATE)
    if _flag(f"{where}.terminal", fields.get("terminal", False)):
        for field in fields.keys() - _TERMINAL:
            raise BadSkill(f"{where}.{field}", "a terminal state has neither tools nor transitions")
        objective = fields.get("objective")
        text = "" if objective is None else _text(f"{where}.objective", objective)
        return StateSpec(objective=text, terminal=True)
    for missing in sorted({"objective", "transitions"} - fields.keys()):
        raise BadSkill(f"{where}.{missing}", "is missing; only a terminal state goes without")
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
            raise BadSkill(field, "a skill cannot start a skill")
        if tool not in known_tools:
            raise BadSkill(field, f"there is no tool {tool!r} in this agent")
        if tool in tools:
            raise BadSkill(field, f"{tool!r} is named twice")
        tools.append(tool)
    return tuple(tools)


def _transitions(where: str, value: object) -> tuple[Transition, ...]:
    transitions: list[Transition] = []
    for number, item in enumerate(_list(where, value)):
        field = f"{where}[{number}]"
        fields = _object(field, item)
        _only(field, fields, _TRANSITION)
        for missing in sorted(_TRANSITION - fields.keys()):
            raise BadSkill(f"{field}.{missing}", "is missing")
        on = _name(f"{field}.on", fields["on"])
        if any(on == earlier.on for earlier in transitions):
            raise BadSkill(f"{field}.on", f"{on!r} has a transition already")
        transitions.append(Transition(on, _name(f"{field}.to", fields["to"])))
    if not transitions:
        raise BadSkill(where, "is empty; only a terminal state goes without")
    return tuple(transitions)


def _object(where: str, value: object) -> Fields:
    if not isinstance(value, dict):
        raise BadSkill(where, f"must be an object, not {_kind(value)}")
    return value


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise BadSkill(where, f"must be a list, not {_kind(value)}")
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadSkill(where, f"must be a text, not {_kind(value)}")
    if not value.strip() or len(value) > MAX_TEXT:
        raise BadSkill(where, f"must have 1 to {MAX_TEXT} characters")
    return value


def _name(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadSkill(where, f"must be a text, not {_kind(value)}")
    if not NAME.fullmatch(value):
        rule = "1 to 64 of a-z, 0-9, _ and -, the first a letter or digit"
        raise BadSkill(where, f"{value[:80]!r} is no name; it takes {rule}")
    return value


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadSkill(where, f"must be true or false, not {_kind(value)}")
    return value


def _count(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadSkill(where, "must be a whole number, 1 or more")
    return value


def _schema(where: str, value: object) -> JsonObject | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadSkill(where, f"must be a JSON Schema as an object, not {_kind(value)}")
    fault = schema_fault(value)
    if fault is not None:
        raise BadSkill(where, f"is not a valid JSON Schema: {fault}")
    return value


def _only(where: str, fields: Fields, known: set[str]) -> None:
    for field in fields:
        if field not in known:
            path = f"{where}.{field}" if where else field
            raise BadSkill(path, f"is not a known field; those are {', '.join(sorted(known))}")


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", str: "a text", list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "a number")


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise BadSkill(double, "stands twice in the same object")
    return fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
