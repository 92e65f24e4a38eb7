"""A malformed config.json is one paragraph that names the file, the line and the field."""

from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_common.json_places import line_of
from choirctl.start.config_file import read_config
from choirctl.start.state_directory import initial_config


def refusal(path: Path, text: str) -> str:
    """Return what reading `text` as config.json is refused with."""
    path.write_text(text)
    with pytest.raises(StartupError) as refused:
        read_config(path)
    return refused.value.message


def test_the_first_config_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(initial_config(tmp_path))
    config = read_config(path)
    assert config.agents["main"].autostart
    assert config.dms["console"].admin


def test_a_wrong_value_is_named_by_line_and_field(tmp_path: Path) -> None:
    text = initial_config(tmp_path).replace('"admin": true', '"admin": "yes"')
    line = text.splitlines().index('      "admin": "yes"') + 1
    said = refusal(tmp_path / "config.json", text)
    assert str(tmp_path / "config.json") in said
    assert f"line {line}, field `dms.console.admin`" in said


def test_a_missing_field_is_named_with_the_line_of_its_object(tmp_path: Path) -> None:
    text = initial_config(tmp_path).replace('"gateway": "console",', "")
    said = refusal(tmp_path / "config.json", text)
    assert "field `dms.console.gateway`" in said


def test_broken_json_is_named_by_line_and_column(tmp_path: Path) -> None:
    said = refusal(tmp_path / "config.json", '{\n  "agents": {,}\n}')
    assert "line 2, column 14" in said
    assert "not JSON" in said


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="choirctl init"):
        read_config(tmp_path / "config.json")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StartupError, match="UTF-8"):
        read_config(tmp_path / "config.json")


def test_a_line_is_found_past_keys_of_the_same_name() -> None:
    text = '{\n "a": {"x": {"b": 1}},\n "b": [\n  10,\n  {"c": 2}\n ]\n}'
    assert line_of(text, ("b", 1, "c")) == 5
    assert line_of(text, ("b", 0)) == 4
    assert line_of(text, ("a", "x", "b")) == 2
    assert line_of(text, ("a", "none")) == 2
    assert line_of(text, ()) == 1
