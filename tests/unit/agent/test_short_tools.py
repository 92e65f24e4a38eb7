"""The tools of a model with a small context window."""

import importlib
import pkgutil

from choir_agent.tools import builtin
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.short_tools import (
    JOB_TOOLS,
    MAX_DESCRIPTION,
    SHORT_TOOLS,
    shorten_manifest,
    tools_to_hide,
)
from choir_common.eventlog.tool_results import TOOL_OUTPUT


def built_in() -> dict[str, ToolManifest]:
    """Return the manifests of all built-in tools, by name."""
    modules = [
        importlib.import_module(f"{builtin.__name__}.{module.name}")
        for module in pkgutil.iter_modules(builtin.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    return {value.name: value for value in values if isinstance(value, ToolManifest)}


def test_every_short_tool_is_a_built_in_one_with_its_required_parameters() -> None:
    manifests = built_in()
    assert manifests.keys() >= SHORT_TOOLS.keys()
    for name, short in SHORT_TOOLS.items():
        schema = manifests[name].llm.parameters
        properties, required = schema.get("properties"), schema.get("required", [])
        assert isinstance(properties, dict) and isinstance(required, list)
        assert properties.keys() >= set(short.parameters), name
        assert set(short.parameters) >= set(required), name


def test_a_short_tool_keeps_its_runtime_and_mentions_only_some_parameters() -> None:
    full = built_in()["choir.memory.query"]
    short = shorten_manifest(full)
    assert short.runtime is full.runtime and len(short.llm.description) < 250
    assert set(short.llm.parameters["properties"]) == {"store", "query", "after"}  # type: ignore[arg-type]


def test_jobs_are_offered_only_if_their_model_has_room_and_proposals_never() -> None:
    names = [*built_in(), "weather.today"]
    without, with_jobs = (tools_to_hide(names, with_jobs=it) for it in (False, True))
    assert without - with_jobs == JOB_TOOLS
    assert "choir.propose.tool" in with_jobs and "choir.fs.read" not in without
    assert "weather.today" not in without


def test_an_external_tool_is_described_by_its_first_sentence() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "its name"},
            "day": {"type": "string", "description": "the day as a date, " * 10},
            "description": {"type": "string"},
        },
    }
    runtime = RuntimeView(1_000, "none", idempotent=True, source=TOOL_OUTPUT)
    text = "Tell the weather. It needs a city, and it takes a while."
    short = shorten_manifest(ToolManifest(LlmView("weather.today", text, parameters), runtime))
    assert short.llm.description == "Tell the weather"
    assert short.llm.parameters["properties"] == {
        "city": {"type": "string", "description": "its name"},
        "day": {"type": "string"},
        "description": {"type": "string"},
    }
    long = shorten_manifest(ToolManifest(LlmView("x.y", "word " * 100, parameters), runtime))
    assert len(long.llm.description) == MAX_DESCRIPTION
