"""`init` makes a whole state directory, for its owner only, and never changes what is there."""

import json
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choirctl.start.state_directory import create_state_directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home() -> Iterator[Path]:
    # sockets must fit below it, which they do not below pytest's own long names
    with tempfile.TemporaryDirectory(prefix="ch-") as short:
        yield Path(short) / "h"


def test_everything_made_is_for_its_owner_only(home: Path) -> None:
    made = create_state_directory(home)
    assert made.paths[0] == home
    assert {mode(path) for path in made.paths if path.is_dir()} == {0o700}
    assert {mode(path) for path in made.paths if path.is_file()} == {0o600}


def test_a_second_time_changes_nothing(home: Path) -> None:
    create_state_directory(home)
    token = (home / "secrets.json").read_text()
    (home / "config.json").write_text("my own")
    assert create_state_directory(home).paths == ()
    assert (home / "config.json").read_text() == "my own"
    assert (home / "secrets.json").read_text() == token


def test_what_is_missing_is_made_beside_what_is_there(home: Path) -> None:
    create_state_directory(home)
    (home / "secrets.json").unlink()
    assert create_state_directory(home).paths == (home / "secrets.json",)


def test_each_home_has_a_token_of_its_own(home: Path) -> None:
    tokens = set()
    for name in ("a", "b"):
        create_state_directory(home / name)
        tokens.add(json.loads((home / name / "secrets.json").read_text())["operator-token"])
    assert len(tokens) == 2


def test_a_home_too_long_for_sockets_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 90)
    with pytest.raises(StartupError, match="CHOIR_HOME"):
        create_state_directory(home)
    assert not home.exists()


def test_a_home_that_cannot_be_made_is_named() -> None:
    home = Path("/proc/choir")
    with pytest.raises(StartupError, match="/proc/choir"):
        create_state_directory(home)
