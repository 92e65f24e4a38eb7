"""The registry: what each lane and each state of a skill is shown, in bytes that stay the same."""

from dataclasses import dataclass

import orjson
import pytest

from choir_agent.tools.manifest import Lanes, LlmView, RuntimeView, ToolManifest
from choir_agent.tools.registry import MAX_VIEWS, ToolRegistry
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.errors import StartupError
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject


@dataclass(frozen=True)
class Named:
    """A tool that does nothing."""

    manifest: ToolManifest

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        return ToolOutput(arguments, "done")


def make_tool(name: str, lanes: Lanes = "both", *, in_skills: bool = False) -> Named:
    runtime = RuntimeView(
        1_000, "none", idempotent=True, source=TOOL_OUTPUT, lanes=lanes, in_skills=in_skills
    )
    return Named(ToolManifest(LlmView(name, f"{name}.", {"type": "object"}), runtime))


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry(
        [
            make_tool("t.write"),
            make_tool("t.spawn", "edge"),
            make_tool("t.report", "core"),
            make_tool("t.move", in_skills=True),
        ]
    )


def names(view: bytes) -> list[str]:
    return [entry["function"]["name"] for entry in orjson.loads(view)]


def test_each_lane_sees_its_own_tools_sorted(registry: ToolRegistry) -> None:
    assert names(registry.view("edge")) == ["t_move", "t_spawn", "t_write"]
    assert names(registry.view("core:one")) == ["t_move", "t_report", "t_write"]


def test_jobs_may_use_tools_of_servers_that_came_later_but_none_of_the_edge_lane(
    registry: ToolRegistry,
) -> None:
    registry.replace_tools("mcp.git.", [make_tool("mcp.git.log")])
    assert registry.tools_of_jobs() == ("mcp.git.log", "t.move", "t.report", "t.write")
    registry.replace_tools("mcp.git.", [])
    assert "mcp.git.log" not in registry.tools_of_jobs()


def test_a_state_of_a_skill_sees_its_tools_and_those_that_move_it(registry: ToolRegistry) -> None:
    assert names(registry.view("edge", frozenset({"t.write"}))) == ["t_move", "t_write"]
    assert names(registry.view("edge", frozenset())) == ["t_move"]
    assert not registry.is_offered("t.report", "edge", frozenset({"t.report"}))


def test_a_view_is_the_same_object_at_every_call_and_the_cache_is_bounded(
    registry: ToolRegistry,
) -> None:
    assert registry.view("core:one") is registry.view("core:two")
    before = registry.view("edge")
    for number in range(3 * MAX_VIEWS):
        registry.view("edge", frozenset({f"t.{number}"}))
    assert registry.view("edge") == before
    assert len(registry._views) <= MAX_VIEWS


def test_names_that_a_model_could_not_tell_apart_stop_the_start() -> None:
    with pytest.raises(StartupError):
        ToolRegistry([make_tool("t.a.b"), make_tool("t.a_b")])


def test_both_names_of_a_tool_lead_to_it(registry: ToolRegistry) -> None:
    assert registry.canonical("t_write") == registry.canonical("t.write") == "t.write"
    assert registry.model_name("t.write") == "t_write"
    assert registry.canonical("t_unknown") is None
