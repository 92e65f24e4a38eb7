"""An entry is added to config.json, and nothing else in the file changes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choirctl.start.config_insert import insert_entry, with_entry, without_entry

ENTRY: dict[str, object] = {"repo": {"url": "", "ref": "main"}, "defaults": {"workspace": ""}}
STRANGE = (
    '{\n    "models": {"agents": {"x": 1}},\n\n    "agents": {"main": {"a": [1,2 , 3]}  },\n'
    '    "budgets":{ "max":1.50 }\n}\n\n'
)


def test_everything_before_and_behind_stays_byte_for_byte() -> None:
    made = with_entry(STRANGE, "f", "agents", "helper", ENTRY)
    begin, end = STRANGE.index("  },"), STRANGE.index('},\n    "budgets"')
    assert made.startswith(STRANGE[:begin].rstrip()) and made.endswith(STRANGE[end:])
    assert json.loads(made)["agents"] == {"main": {"a": [1, 2, 3]}, "helper": ENTRY}


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2), max_size=3),
    st.sampled_from([None, 1, 2, 4, "\t"]),
)
def test_any_file_gains_exactly_the_entry(
    agents: dict[str, object], more: dict[str, object], indent: int | str | None
) -> None:
    before = {**more, "agents": agents}
    if "helper" in agents:
        return
    made = with_entry(json.dumps(before, indent=indent), "f", "agents", "helper", ENTRY)
    assert json.loads(made) == {**before, "agents": {**agents, "helper": ENTRY}}


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    st.sampled_from([None, 1, 2, 4, "\t"]),
)
def test_a_section_that_is_not_there_yet_is_made(
    before: dict[str, object], indent: int | str | None
) -> None:
    made = with_entry(json.dumps(before, indent=indent), "f", "new models", "default", ENTRY)
    assert json.loads(made) == {**before, "new models": {"default": ENTRY}}


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4),
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.integers(min_value=0, max_value=4),
)
def test_any_entry_is_removed_and_nothing_else(
    agents: dict[str, object], indent: int | str | None, at: int
) -> None:
    names = [*agents]
    names.insert(at, "the helper")
    before = {"x": 1, "agents": {name: agents.get(name, ENTRY) for name in names}, "z": [2]}
    left = without_entry(json.dumps(before, indent=indent), "f", "agents", "the helper")
    assert json.loads(left) == {**before, "agents": agents}


def test_an_entry_that_was_added_is_removed_without_a_trace() -> None:
    made = with_entry(STRANGE, "f", "agents", "helper", ENTRY)
    left = without_entry(made, "f", "agents", "helper")
    assert "".join(left.split()) == "".join(STRANGE.split())
    with pytest.raises(NotFound):
        without_entry(STRANGE, "f", "agents", "helper")


def test_a_taken_name_a_broken_file_and_no_file_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(NotFound):
        insert_entry(path, "agents", "a", ENTRY)
    for text, kind in (
        ('{"agents": {"a": 1}}', Conflict),
        ('{"agents": [1]}', InvalidRequest),
        ('{"agents": ', InvalidRequest),
        ('["agents"]', InvalidRequest),
    ):
        path.write_text(text)
        with pytest.raises(kind):
            insert_entry(path, "agents", "a", ENTRY)
        assert path.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == ["config.json"]


def test_the_mode_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"agents": {}}')
    path.chmod(0o640)
    insert_entry(path, "agents", "a", ENTRY)
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads(path.read_text()) == {"agents": {"a": ENTRY}}
