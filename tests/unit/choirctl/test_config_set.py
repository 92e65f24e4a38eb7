"""`config set`: one setting changes, every other byte stays, and what would not fit is refused."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from choir_common.errors import InvalidRequest, NotFound
from choirctl.start.config_set import set_value, with_value
from choirctl.start.state_directory import initial_config

TEXT = '{\n  "a": {"x": 1,   "y": [1, 2]},\n  "b":   "kept as it is"\n}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(initial_config(tmp_path))
    return path


@pytest.mark.parametrize(
    ("key", "value", "made"),
    [
        ("a.x", 2, TEXT.replace('"x": 1', '"x": 2')),
        ("a.y", [], TEXT.replace("[1, 2]", "[]")),
        ("a.z", True, TEXT.replace("[1, 2]}", '[1, 2],\n    "z": true\n  }')),
        ("c", "d", TEXT.replace('as it is"\n', 'as it is",\n  "c": "d"\n')),
    ],
)
def test_one_value_changes_and_every_other_byte_stays(
    key: str, value: JsonValue, made: str
) -> None:
    assert with_value(TEXT, "config.json", key.split("."), value)[0] == made


@pytest.mark.parametrize("key", ["a.n.m.o", "n.m", "a.x"])
def test_sections_are_made_on_the_way(key: str) -> None:
    steps = key.split(".")
    found: JsonValue = json.loads(with_value(TEXT, "config.json", steps, {"p": ["q"]})[0])
    for step in steps:
        assert isinstance(found, dict)
        found = found[step]
    assert found == {"p": ["q"]}


def test_a_setting_is_changed_and_what_it_was_is_told(file: Path) -> None:
    assert set_value(file, "agents.main.timezone", "Europe/Berlin") is None
    assert set_value(file, "agents.main.timezone", "UTC") == "Europe/Berlin"
    assert json.loads(file.read_text())["agents"]["main"]["timezone"] == "UTC"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("agents.main.timzone", "did you mean `timezone`"),
        ("gatewayz", "did you mean `gateways`"),
        ("models.default.modle", "did you mean `model`"),
        ("event_window.x", "is not a section"),
        ("agents..x", "names no setting"),
        ("event_window", "event_window"),
    ],
)
def test_what_would_not_fit_is_refused_and_nothing_changes(file: Path, key: str, said: str) -> None:
    set_value(file, "event_window", 70)
    before = file.read_bytes()
    with pytest.raises(InvalidRequest) as refused:
        set_value(file, key, "x")
    assert said in refused.value.message and file.read_bytes() == before


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        set_value(tmp_path / "config.json", "event_window", 1)
