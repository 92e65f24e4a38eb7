"""SQLite databases of other programs: copied and read there, so that their files are never written.

Their schemas are untrusted: only tables are read, and nothing of them is run.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from choirctl.imports.source_files import SourceFiles


@contextmanager
def open_copy(files: SourceFiles, name: str) -> Iterator[sqlite3.Connection]:
    """Yield a connection with a copy of a database; raises sqlite3.Error for what is none."""
    with tempfile.TemporaryDirectory(prefix="choir-import-") as folder:
        copy = Path(folder, "copy.db")
        # the log beside it has what was not written into the database yet
        for suffix in ("", "-wal"):
            if name + suffix in files.names():
                with files.open(name + suffix) as source, Path(f"{copy}{suffix}").open("wb") as out:
                    shutil.copyfileobj(source, out)
        with closing(sqlite3.connect(copy)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            yield database


def has_tables(database: sqlite3.Connection, *names: str) -> bool:
    """Return whether all of these are tables, and none a view, which could run anything."""
    marks = ", ".join("?" * len(names))
    query = f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({marks})"  # noqa: S608
    (count,) = database.execute(query, names).fetchone()
    return bool(count == len(names))
