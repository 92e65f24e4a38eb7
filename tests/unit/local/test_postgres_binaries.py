"""Where the Postgres programs are found."""

from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_local.postgres_binaries import OLDEST_MAJOR, find_postgres_binaries


def make_programs(directory: Path, version: str) -> Path:
    """Put a `postgres` that only tells a version, and an `initdb`, into `directory`."""
    directory.mkdir()
    for name in ("postgres", "initdb"):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return directory


def test_something_is_found_here() -> None:
    found = find_postgres_binaries()
    assert found.major >= OLDEST_MAJOR
    assert Path(found.program("postgres")).is_file()


@pytest.mark.parametrize(("version", "major"), [("17.2", 17), ("18devel", 18), ("19beta1", 19)])
def test_the_directory_that_was_named_is_taken(tmp_path: Path, version: str, major: int) -> None:
    assert find_postgres_binaries(make_programs(tmp_path / "bin", version)).major == major


def test_a_named_directory_without_postgres_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="CHOIR_PG_BIN is"):
        find_postgres_binaries(tmp_path)


def test_a_named_postgres_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=f"version {OLDEST_MAJOR} or newer"):
        find_postgres_binaries(make_programs(tmp_path / "bin", "14.1"))
