"""What is published about config.json is made of the models, complete, and the same as what is committed."""

import json
from pathlib import Path

import pytest

from choir_common.wire.config import Config
from choir_common.wire.config_effects import change_category
from choir_common.wire.config_schema import config_reference, config_schema, undocumented_fields
from choir_common.wire.config_secrets import secret_references

ROOT = Path(__file__).parents[3]
REMAKE = "remake it: choirctl config schema [--markdown]"


def test_the_committed_schema_is_that_of_the_models() -> None:
    assert json.loads((ROOT / "docs/config.schema.json").read_text()) == config_schema(), REMAKE


def test_the_committed_table_is_that_of_the_models() -> None:
    assert (ROOT / "docs/config.md").read_text() == config_reference(), REMAKE


def test_every_field_says_what_it_is_for() -> None:
    assert undocumented_fields() == []


def test_the_table_holds_every_tunable_with_its_default_and_limits() -> None:
    table = config_reference()
    for name in Config.model_fields["budgets"].default.model_dump():
        kind = "number or null" if "usd_" in name else "integer"
        assert f"| `budgets.{name}` | {kind} |" in table
    assert "| `heartbeat_interval_ms` | integer | `5000` | 100 or more | apply |" in table


def test_an_editor_may_be_told_the_schema_in_the_file_itself() -> None:
    text = '{"$schema": "config.schema.json", "agents": {}, "workspaces": {}}'
    config = Config.model_validate_json(text)
    assert "schema" not in config.model_dump_json()
    assert Config.model_validate_json(config.model_dump_json()) == Config(agents={}, workspaces={})


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("models.default.temperature", "hot-reload"),
        ("models.default.request.extra_headers", "hot-reload"),
        ("features.browsing", "hot-reload"),
        ("budgets.max_core_jobs", "hot-reload"),
        ("agents.main.defaults.core_llm", "hot-reload"),
        ("agents.main.defaults.workspace", "restart-required"),
        ("agents.main.repo.ref", "restart-required"),
        ("global_repo", "restart-required"),
        ("embedding.model", "restart-required"),
        ("workspaces.main.path", "restart-required"),
    ],
)
def test_a_change_says_what_it_takes(path: str, category: str) -> None:
    found, note = change_category(path)
    assert found == category
    assert bool(note) == (category == "restart-required")


def test_every_use_of_a_secret_is_found() -> None:
    config = Config.model_validate_json(
        json.dumps(
            {
                "agents": {},
                "workspaces": {},
                "models": {"m": {"model": "x", "endpoint": "http://x", "secret": "key"}},
                "search": {"s": {"secret": "key"}},
                "embedding": {
                    "model": "e",
                    "dimensions": 3,
                    "endpoint": "http://x",
                    "secret": "vectors",
                },
            }
        )
    )
    assert secret_references(config) == {"key": ("models.m", "search.s"), "vectors": ("embedding",)}
