"""Lanes are compared by `choir_common.lanes` alone (docs/decisions/0074).

A comparison with the literal lane `edge` would treat the lanes of further conversations as core jobs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LANES = ROOT / "libs/choir_common/choir_common/lanes.py"
LANE_NAMES = ("lane", "target", "owner")


def _sources() -> Iterator[Path]:
    for folder in ("services", "libs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != LANES and "choir_testing" not in path.parts:
                yield path


def _is_lane(node: ast.expr) -> bool:
    """Return whether an expression is a lane's name, by the last word of its own name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.rpartition("_")[2] in LANE_NAMES
        case _:
            return False


def _is_edge_name(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value="edge") | ast.Name(id="EDGE_LANE" | "EDGE"):
            return True
        case ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items):
            return any(_is_edge_name(item) for item in items)
        case _:
            return False


def _compares_by_literal(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            names = any(isinstance(side, ast.Name) and _is_edge_name(side) for side in sides)
            return names or (any(map(_is_lane, sides)) and any(map(_is_edge_name, sides)))
        case ast.Call(func=ast.Attribute(attr="startswith"), args=[prefix, *_]):
            match prefix:
                case ast.Constant(value="core:" | "edge:"):
                    return True
                case ast.Name(id="CORE_LANE_PREFIX" | "EDGE_LANE_PREFIX"):
                    return True
    return False


def _literal_comparisons(source: str) -> list[int]:
    return [node.lineno for node in ast.walk(ast.parse(source)) if _compares_by_literal(node)]


def test_no_module_compares_a_lane_with_a_literal() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in _sources()
        for line in _literal_comparisons(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "event.lane == 'edge'",
        "lane != EDGE_LANE",
        "compaction.target == EDGE",
        "lane in ('edge', 'session')",
        "lane.startswith('core:')",
        "lane.startswith(EDGE_LANE_PREFIX)",
    ],
)
def test_a_comparison_with_a_literal_is_found(source: str) -> None:
    assert _literal_comparisons(source) == [1]


@pytest.mark.parametrize("source", ["runtime.lanes != 'edge'", "is_edge(lane)", "by == 'edge'"])
def test_other_comparisons_are_accepted(source: str) -> None:
    assert _literal_comparisons(source) == []
