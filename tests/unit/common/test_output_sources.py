"""Where the output of a tool comes from, and how far it is trusted."""

import pytest

from choir_common.eventlog.tool_results import (
    JOB_OUTPUT,
    OUTSIDE_OUTPUT,
    OWN_OUTPUT,
    TOOL_OUTPUT,
    OutputSource,
    output_source,
    record_source,
    returns_outside_text,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.repository_files import RuntimeSection


@pytest.mark.parametrize(
    ("tool", "source"),
    [
        ("choir.web.browse", OUTSIDE_OUTPUT),
        ("choir.email.receive", OUTSIDE_OUTPUT),
        ("choir.memory.query", OWN_OUTPUT),
        ("choir.core.list", JOB_OUTPUT),
        ("choir.exec", TOOL_OUTPUT),
        ("notes.add", TOOL_OUTPUT),
    ],
)
def test_a_tool_has_the_source_of_its_manifest(tool: str, source: OutputSource) -> None:
    assert output_source(tool, {}) == source
    assert record_source(tool, {"text": "x"}, source) == {"text": "x"}


def test_an_external_tool_that_brings_in_pages_is_trusted_like_a_page() -> None:
    output = record_source("feeds.read", {"text": "x"}, OUTSIDE_OUTPUT)
    assert returns_outside_text("feeds.read", output)


def test_a_memory_search_that_finds_a_page_returns_outside_text() -> None:
    page: JsonObject = {"trust": OUTSIDE_OUTPUT.trust, "text": "x"}
    own: JsonObject = {"trust": 70, "text": "y"}
    assert returns_outside_text("choir.memory.query", {"found": [own, page]})
    assert not returns_outside_text("choir.memory.query", {"found": [own]})
    assert not returns_outside_text("choir.memory.query", {"found": ["broken", {"trust": "10"}]})


@pytest.mark.parametrize("output", [{"origin": "choir"}, {"origin": "jobs"}, {"origin": 7}])
def test_an_output_cannot_raise_its_own_trust(output: JsonObject) -> None:
    assert output_source("feeds.read", output) == TOOL_OUTPUT
    assert output_source("choir.web.browse", output) == OUTSIDE_OUTPUT


def test_an_external_manifest_without_an_origin_is_a_tool() -> None:
    manifest = {"timeout_ms": 100, "side_effect": "read", "idempotent": True}
    assert RuntimeSection.model_validate(manifest).origin == "tool"
