"""Store of the table `trigger_files`: the files of watched folders as they were last seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Database
from choir_control.conversations.triggers.folder_scan import FileState, printable_path

FOLDER = ""
"""The path of the row that stands for the folder itself; its digest is the folder's path."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as it was last seen."""

    size: int
    modified_ns: int
    digest: str


class FolderStore:
    """Store of the files of watched folders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, name: str) -> Mapping[str, SeenFile]:
        """Return the files of a trigger by their path."""
        rows = await self._database.fetch(
            "SELECT path, size, modified_ns, digest FROM choir_control.trigger_files WHERE name = $1",
            name,
        )
        return {
            row["path"]: SeenFile(row["size"], row["modified_ns"], row["digest"]) for row in rows
        }

    async def begin(self, name: str, folder: str, files: Sequence[FileState]) -> None:
        """Replace the files of a trigger by those that are there before it begins."""
        await self._database.execute(
            """
            WITH gone AS (DELETE FROM choir_control.trigger_files WHERE name = $1 AND NOT (
                path = $2 OR path = ANY($4::text[])))
            INSERT INTO choir_control.trigger_files (name, path, size, modified_ns, digest)
            SELECT $1, $2, 0, 0, $3
            UNION ALL SELECT $1, f.path, f.size, f.modified_ns, ''
            FROM unnest($4::text[], $5::bigint[], $6::bigint[]) AS f(path, size, modified_ns)
            ON CONFLICT (name, path) DO UPDATE SET size = EXCLUDED.size,
                modified_ns = EXCLUDED.modified_ns, digest = EXCLUDED.digest
            """,
            name,
            FOLDER,
            folder,
            [printable_path(file.path) for file in files],
            [file.size for file in files],
            [file.modified_ns for file in files],
        )

    async def save(self, name: str, file: FileState, digest: str) -> None:
        """Record a file as it is now."""
        await self._database.execute(
            """
            INSERT INTO choir_control.trigger_files (name, path, size, modified_ns, digest)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (name, path) DO UPDATE SET size = EXCLUDED.size,
                modified_ns = EXCLUDED.modified_ns, digest = EXCLUDED.digest
            """,
            name,
            printable_path(file.path),
            file.size,
            file.modified_ns,
            digest,
        )

    async def forget(self, name: str, paths: Sequence[str]) -> None:
        """Delete the rows of files that are gone."""
        await self._database.execute(
            "DELETE FROM choir_control.trigger_files WHERE name = $1 AND path = ANY($2::text[])",
            name,
            list(paths),
        )

    async def prune(self, names: Sequence[str]) -> None:
        """Delete the rows of triggers that are not configured any more."""
        await self._database.execute(
            "DELETE FROM choir_control.trigger_files WHERE NOT (name = ANY($1::text[]))",
            list(names),
        )
