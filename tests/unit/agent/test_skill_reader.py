"""A skill is read whole, or refused with its field and the reason."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from choir_agent.skills.skill_parser import InvalidSkill, parse_skill, parse_skill_document
from choir_agent.skills.skill_registry import SkillRegistry, load_skills
from choir_agent.skills.skill_spec import StateSpec, Transition
from choir_common.errors import StartupError

TOOLS = {
    "choir.fs.read",
    "choir.fs.write",
    "choir.memory.query",
    "choir.propose.tool",
    "choir.propose.skill",
}
GOOD: dict[str, Any] = {
    "name": "build_feature",
    "description": "Implement a feature end-to-end.",
    "initial_state": "plan",
    "input_schema": {"type": "object", "required": ["feature"]},
    "output_schema": {"type": "object"},
    "states": {
        "plan": {
            "objective": "Produce an implementation plan.",
            "allowed_tools": ["choir.memory.query"],
            "transitions": [{"on": "complete", "to": "modify"}],
        },
        "modify": {
            "objective": "Apply changes to files.",
            "allowed_tools": ["choir.fs.read", "choir.fs.write"],
            "transitions": [{"on": "complete", "to": "done"}, {"on": "revise", "to": "plan"}],
        },
        "done": {"terminal": True},
    },
    "max_steps": 20,
    "interruptible": False,
}
LOOP = {"objective": "Turn.", "transitions": [{"on": "on", "to": "loop"}]}


def changed(path: str, value: object) -> Callable[[], dict[str, Any]]:
    """Return the good skill with one place changed; a value of `...` takes the place out."""

    def make() -> dict[str, Any]:
        skill = copy.deepcopy(GOOD)
        place: Any = skill
        *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        for part in way:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return skill

    return make


PLAN, MODIFY, DONE = "states/plan", "states/modify", "states/done"
MALFORMED = [
    (changed("name", ...), "name", "is missing"),
    (changed("description", ...), "description", "is missing"),
    (changed("states", ...), "states", "is missing"),
    (changed("initial_state", ...), "initial_state", "is missing"),
    (changed("max_steps", ...), "max_steps", "is missing"),
    (changed("name", "Build Feature"), "name", "'Build Feature' is not a valid name"),
    (changed("name", "../up"), "name", "is not a valid name"),
    (changed("name", 7), "name", "must be a string, not a number"),
    (changed("description", "  "), "description", "1 to 20000 characters"),
    (changed("description", None), "description", "must be a string, not null"),
    (changed("max_steps", 0), "max_steps", "whole number, 1 or more"),
    (changed("max_steps", True), "max_steps", "whole number, 1 or more"),
    (changed("max_steps", 2.5), "max_steps", "whole number, 1 or more"),
    (changed("max_steps", "20"), "max_steps", "whole number, 1 or more"),
    (changed("interruptible", "no"), "interruptible", "must be true or false, not a string"),
    (changed("guards", []), "guards", "is not a known field"),
    (changed("states", []), "states", "must be an object, not a list"),
    (changed("states", {}), "initial_state", "there is no state 'plan'"),
    (changed("initial_state", "begin"), "initial_state", "there is no state 'begin'"),
    (changed("initial_state", "done"), "initial_state", "would end as it begins"),
    (
        changed(f"{PLAN}/transitions/0/to", "gone"),
        "states.plan.transitions[0].to",
        "no state 'gone'",
    ),
    (changed(f"{MODIFY}/transitions/1/to", "x"), "states.modify.transitions[1].to", "no state 'x'"),
    (changed(f"{PLAN}/transitions/0/to", ...), "states.plan.transitions[0].to", "is missing"),
    (changed(f"{PLAN}/transitions/0/on", ...), "states.plan.transitions[0].on", "is missing"),
    (
        changed(f"{PLAN}/transitions/0/on", "a b"),
        "states.plan.transitions[0].on",
        "is not a valid name",
    ),
    (
        changed(f"{PLAN}/transitions/0/if", "x"),
        "states.plan.transitions[0].if",
        "not a known field",
    ),
    (changed(f"{PLAN}/transitions/0", "done"), "states.plan.transitions[0]", "must be an object"),
    (
        changed(f"{MODIFY}/transitions/1/on", "complete"),
        "states.modify.transitions[1].on",
        "'complete' has a transition already",
    ),
    (changed(f"{PLAN}/transitions", []), "states.plan.transitions", "is empty"),
    (changed(f"{PLAN}/transitions", {}), "states.plan.transitions", "must be a list"),
    (changed(f"{PLAN}/transitions", ...), "states.plan.transitions", "is missing"),
    (changed(f"{PLAN}/objective", ...), "states.plan.objective", "is missing"),
    (changed(f"{PLAN}/objective", ""), "states.plan.objective", "1 to 20000 characters"),
    (changed(f"{PLAN}/tools", []), "states.plan.tools", "is not a known field"),
    (changed(f"{PLAN}/allowed_tools", "all"), "states.plan.allowed_tools", "must be a list"),
    (changed(f"{PLAN}/allowed_tools", [1]), "states.plan.allowed_tools[0]", "must be a string"),
    (
        changed(f"{PLAN}/allowed_tools", ["choir.fs.read", "choir.fs.erase"]),
        "states.plan.allowed_tools[1]",
        "there is no tool 'choir.fs.erase'",
    ),
    (
        changed(f"{PLAN}/allowed_tools", ["choir.skill.start"]),
        "states.plan.allowed_tools[0]",
        "a skill cannot start a skill",
    ),
    (
        changed(f"{PLAN}/allowed_tools", ["choir.fs.read", "choir.fs.read"]),
        "states.plan.allowed_tools[1]",
        "named twice",
    ),
    (changed(DONE, {"terminal": 1}), "states.done.terminal", "must be true or false"),
    (
        changed(f"{DONE}/allowed_tools", []),
        "states.done.allowed_tools",
        "a terminal state has neither",
    ),
    (changed(f"{DONE}/transitions", []), "states.done.transitions", "a terminal state has neither"),
    (
        changed(DONE, LOOP | {"transitions": [{"on": "on", "to": "done"}]}),
        "states",
        "no state is ter",
    ),
    (changed("states/lost", {"terminal": True}), "states.lost", "not reachable from"),
    (changed("states/Done", {"terminal": True}), "states", "'Done' is not a valid name"),
    (changed("input_schema", "object"), "input_schema", "must be a JSON Schema as an object"),
    (changed("input_schema", {"type": "objekt"}), "input_schema", "not a valid JSON Schema"),
    (changed("output_schema", {"required": "x"}), "output_schema", "not a valid JSON Schema"),
    (
        changed("output_schema", {"$ref": "http://127.0.0.1:9/schema"}),
        "output_schema",
        "not a valid JSON Schema",
    ),
]


def test_a_skill_is_read_as_it_is_written() -> None:
    spec = parse_skill_document(GOOD, TOOLS)
    assert (spec.name, spec.initial_state, spec.max_steps) == ("build_feature", "plan", 20)
    assert not spec.interruptible
    assert spec.states["done"] == StateSpec(terminal=True)
    assert spec.states["modify"].allowed_tools == ("choir.fs.read", "choir.fs.write")
    assert spec.states["modify"].transitions[1] == Transition("revise", "plan")
    assert parse_skill(json.dumps(GOOD), TOOLS) == spec


@pytest.mark.parametrize(
    ("make", "field", "reason"),
    MALFORMED,
    ids=[f"{n}-{case[1]}" for n, case in enumerate(MALFORMED)],
)
def test_a_malformed_skill_is_refused_with_its_field_and_the_reason(
    make: Callable[[], dict[str, Any]], field: str, reason: str
) -> None:
    with pytest.raises(InvalidSkill) as caught:
        parse_skill_document(make(), TOOLS)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_a_state_that_leads_to_no_end_is_refused() -> None:
    skill = copy.deepcopy(GOOD)
    skill["states"]["loop"] = LOOP
    skill["states"]["plan"]["transitions"].append({"on": "turn", "to": "loop"})
    with pytest.raises(InvalidSkill, match="loop: no terminal state is reachable from here"):
        parse_skill_document(skill, TOOLS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: is not JSON"),
        ("{", "file: is not JSON"),
        ("[]", "skill: must be an object, not a list"),
        ("7", "skill: must be an object, not a number"),
        ('{"name": NaN}', "NaN is not valid JSON"),
        ('{"name": "a", "name": "b"}', "name: is duplicated in the object"),
        ("[" * 100_000, "file: is not JSON"),
        (" " * 1_000_001, "more than 1000000 bytes"),
        (b"\xff\xfe\xff", "file: is not JSON"),
    ],
    ids=["empty", "cut", "list", "number", "nan", "double", "deep", "long", "bytes"],
)
def test_a_text_that_holds_no_skill_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidSkill) as caught:
        parse_skill(text, TOOLS)
    assert message in str(caught.value)


def write(place: Path, **fields: object) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(GOOD | fields))


def test_the_built_in_skills_are_there_and_well_formed(tmp_path: Path) -> None:
    skills = load_skills(tmp_path, TOOLS)
    assert skills.names() == ["skill-builder", "tool-builder"]
    assert (
        dict(skills.summaries())["tool-builder"] == "Design and propose a new tool for the agent."
    )
    builder = skills.find("tool-builder")
    assert builder is not None and builder.max_steps == 15
    assert builder.states["propose"].allowed_tools == ("choir.propose.tool",)


def test_a_skill_with_a_step_whose_tools_are_all_missing_is_not_listed(tmp_path: Path) -> None:
    skills = load_skills(tmp_path, TOOLS)
    missing = frozenset({"choir.propose.tool", "choir.fs.read"})
    assert [name for name, _ in skills.summaries(missing)] == ["skill-builder"]


def test_an_agents_skill_goes_before_a_global_one_and_that_before_a_built_in_one(
    tmp_path: Path,
) -> None:
    write(tmp_path / "skills/global/a.json", name="tool-builder", description="global")
    assert dict(load_skills(tmp_path, TOOLS).summaries())["tool-builder"] == "global"
    write(tmp_path / "skills/mine.json", name="tool-builder", description="mine")
    assert dict(load_skills(tmp_path, TOOLS).summaries())["tool-builder"] == "mine"
    write(tmp_path / "skills/agent/b.json", name="tool-builder", description="agent")
    assert dict(load_skills(tmp_path, TOOLS).summaries())["tool-builder"] == "agent"


def test_a_broken_file_stops_the_start_and_is_named(tmp_path: Path) -> None:
    write(tmp_path / "skills/agent/broken.json", max_steps=0)
    with pytest.raises(StartupError) as caught:
        load_skills(tmp_path, TOOLS)
    assert str(tmp_path / "skills/agent/broken.json") in str(caught.value)
    assert "max_steps: must be a whole number" in str(caught.value)


def test_two_skills_of_one_name_in_the_same_place_stop_the_start(tmp_path: Path) -> None:
    write(tmp_path / "skills/one.json")
    write(tmp_path / "skills/two.json")
    with pytest.raises(StartupError, match=r"one\.json and .*two\.json have the same name"):
        load_skills(tmp_path, TOOLS)


def test_a_skill_that_is_a_directory_or_a_broken_link_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "gone.json").symlink_to("nowhere")
    with pytest.raises(StartupError, match=r"Cannot read the skill .*gone\.json"):
        load_skills(tmp_path, TOOLS)


def test_the_manifest_hash_tells_any_two_sets_of_skills_apart(tmp_path: Path) -> None:
    spec = parse_skill_document(GOOD, TOOLS)
    other = parse_skill_document(GOOD | {"max_steps": 21}, TOOLS)
    again = parse_skill_document(json.loads(json.dumps(GOOD)), TOOLS)
    assert SkillRegistry([spec]).manifest_hash == SkillRegistry([again]).manifest_hash
    assert len({SkillRegistry(specs).manifest_hash for specs in ([], [spec], [other])}) == 3
