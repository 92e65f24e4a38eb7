"""What can be proposed: tools without programs, skills that hold together, settings that may change."""

import copy

import pytest

from choir_agent.tools.builtin.propose import CONFIG_MANIFEST, REPO_MANIFEST, SKILL_MANIFEST
from choir_agent.tools.builtin.propose_tool import MANIFEST as TOOL
from choir_agent.tools.proposals.validation import validate_config_patch, validate_tool_proposal
from choir_agent.tools.tool import ToolFailed
from choir_common.json_schema import SchemaValidator
from choir_common.wire.model import JsonObject

KNOWN = ("choir.fs.read", "weather.today")
GOOD: JsonObject = {
    "manifest": {
        "llm": {
            "name": "weather.tomorrow",
            "description": "Tell tomorrow's weather of a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
        "runtime": {"timeout_ms": 5000, "side_effect": "none", "idempotent": True, "network": True},
    },
    "behaviour": "Ask the weather service for the place and return what it says.",
    "reason": "The user asks every day.",
}
TOOL_SCHEMA = SchemaValidator(TOOL.llm.parameters)
CONFIG_SCHEMA = SchemaValidator(CONFIG_MANIFEST.llm.parameters)
REPO_SCHEMA = SchemaValidator(REPO_MANIFEST.llm.parameters)


def propose(*changes: tuple[str, object]) -> str:
    """Return the name of the good proposal with some fields changed, as the arbiter would pass it on.

    Raises ToolFailed when the schema of the input or the check refuses it.
    """
    arguments = copy.deepcopy(GOOD)
    for path, value in changes:
        *way, last = path.split("/")
        place: object = arguments
        for step in way:
            assert isinstance(place, dict)
            place = place[step]
        assert isinstance(place, dict)
        place[last] = value
    faults = TOOL_SCHEMA.violations(arguments)
    if faults:
        raise ToolFailed("invalid_arguments", str(faults))
    manifest = arguments["manifest"]
    assert isinstance(manifest, dict)
    return validate_tool_proposal(manifest, str(arguments["behaviour"]), KNOWN)


def test_a_sound_proposal_of_a_tool_passes() -> None:
    assert propose() == "weather.tomorrow"
    locks = [{"resource": "file:{path}", "mode": "S"}]
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert propose(("manifest/runtime/locks", locks), ("manifest/llm/parameters", parameters))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("manifest/llm/name", "choir.fs.read"),
        ("manifest/llm/name", "choir.new"),
        ("manifest/llm/name", "weather.today"),
        ("manifest/llm/name", "weather_tomorrow"),
        ("manifest/llm/name", "Weather.Tomorrow"),
        ("manifest/llm/name", "../../x.y"),
        ("manifest/llm/parameters", {"type": "no such type"}),
        ("manifest/llm/parameters", {"type": "object", "properties": 3}),
        ("manifest/llm/parameters", {"type": "array"}),
        ("manifest/llm/parameters", {}),
        ("manifest/llm/exec", "curl x | sh"),
        ("manifest/runtime/exec_path", "/bin/sh"),
        ("manifest/runtime/timeout_ms", 10**9),
        ("manifest/runtime/side_effect", "maybe"),
        ("manifest/runtime/secret_resources", ["operator-token"]),
        ("manifest/runtime/locks", [{"resource": "anything", "mode": "X"}]),
        ("manifest/runtime/locks", [{"resource": "file:{path}", "mode": "X"}]),
        ("script", "print(1)"),
        ("behaviour", "Run this, please:\n```python\nprint(1)\n```"),
        ("behaviour", "It is as follows:\n#!/bin/sh\nrm -rf /"),
        ("manifest/llm/description", "Put this into the page <script>x()</script>"),
        ("reason", ""),
    ],
)
def test_a_proposal_that_is_no_tool_or_carries_a_program_is_refused(
    path: str, value: object
) -> None:
    with pytest.raises(ToolFailed):
        propose((path, value))


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        ({"budgets": {"max_core_jobs": 4}}, "budgets.max_core_jobs"),
        (
            {"agents": {"main": {"budgets": {"max_core_jobs": 4}}}},
            "agents.main.budgets.max_core_jobs",
        ),
        ({"models": {"default": {"temperature": None}}}, "models.default.temperature"),
        ({"agents": {"main": {"defaults": {"core_llm": "deep"}}}}, "agents.main.defaults.core_llm"),
        ({"agents": {"main": {"defaults": {"search": None}}}}, "agents.main.defaults.search"),
        (
            {"voice_profiles": {"v": {"voice_settings": {"speed": 1.2}}}},
            "voice_profiles.v.voice_settings.speed",
        ),
        (
            {"event_window": 60, "compaction_threshold": 0.5},
            "event_window, compaction_threshold",
        ),
    ],
)
def test_settings_that_may_change_while_an_agent_runs_can_be_proposed(
    patch: JsonObject, what: str
) -> None:
    assert not CONFIG_SCHEMA.violations({"patch": patch, "reason": "because"})
    assert validate_config_patch(patch, "main") == what


@pytest.mark.parametrize(
    "patch",
    [
        {},
        {"budgets": {}},
        {"budgets": 3},
        {"budgets": {"max_core_jobs": -1}},
        {"budgets": {"max_core_jobs": "many"}},
        {"budgets": {"no_such_budget": 1}},
        {"budgets": {"max_core_jobs": None}},
        {"budgets": None},
        {"models": {"default": {"endpoint": "https://evil.test"}}},
        {"models": {"default": {"secret": "operator-token"}}},
        {"models": {"default": {"temperature": "hot"}}},
        {"models": {"default": None}},
        {"agents": {"other": {"defaults": {"llm": "deep"}}}},
        {"agents": {"main": {"defaults": {"workspace": "theirs"}}}},
        {"agents": {"main": {"defaults": {"dm": "theirs"}}}},
        {"agents": {"main": {"defaults": {"llm": None}}}},
        {"agents": {"main": {"defaults": {"llm": ""}}}},
        {"agents": {"main": {"repo": {"url": "https://evil.test"}}}},
        {"workspaces": {"main": {"path": "/"}}},
        {"skills": {"notes": {"sha256": "0" * 64, "agents": ["main"]}}},
        {"dms": {"eve": {"gateway": "console", "user_id": "eve", "admin": True}}},
        {"gateways": {"x": {"type": "console"}}},
        {"postgres": {"host": "evil.test"}},
        {"email_accounts": {"x": {"smtp_host": "evil.test"}}},
        {"voice_profiles": {"v": {"voice_settings": {"speed": 99}}}},
        {"voice_profiles": {"v": {"tts": "evil"}}},
        {"event_window": 60, "dms": {"console": {"admin": True}}},
        {"event_window": 1},
        {"budgets": {"max_core_jobs": {"deeper": 4}}},
    ],
)
def test_nothing_that_says_who_may_talk_or_where_data_goes_can_be_proposed(
    patch: JsonObject,
) -> None:
    with pytest.raises(ToolFailed):
        validate_config_patch(patch, "main")


def test_proposals_hold_no_locks_and_never_pass_for_harmless() -> None:
    for manifest in (TOOL, SKILL_MANIFEST, CONFIG_MANIFEST):
        assert not manifest.runtime.locks and not manifest.runtime.secret_resources
        assert manifest.runtime.side_effect == "write" and manifest.runtime.idempotent


@pytest.mark.parametrize(
    ("branch", "commit"),
    [
        ("main", "0" * 40),
        ("proposal/ses_1/../x", "0" * 40),
        ("proposal/ses_1/--x", "0" * 40),
        ("proposal/ses_1/x y", "0" * 40),
        ("proposal/ses_1/x", "HEAD"),
        ("proposal/ses_1/x", "0" * 39),
    ],
)
def test_a_branch_is_named_whole_and_with_its_whole_commit(branch: str, commit: str) -> None:
    good: JsonObject = {"branch": "proposal/ses_1/x-2", "commit": "a" * 40, "reason": "because"}
    assert not REPO_SCHEMA.violations(good)
    assert REPO_SCHEMA.violations({**good, "branch": branch, "commit": commit})
