"""What a backup says about itself: a head at its beginning, and a manifest of every file at its end."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
HEAD = "choir-backup.json"
MANIFEST = "manifest.json"
DUMP_PREFIX = "database.dump/"
"""The dump in pieces `database.dump/000000`, so that none of it waits on the disk in plain text."""
OUTSIDE_PREFIX = "outside/"
"""Workspaces that are not below the state directory, by name."""
HOME_PREFIX = "home/"
SHOWN_SKIPPED = 50


class BackupHead(BaseModel):
    """The first file of a backup: what is needed to read the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    choir: str
    """Version of Choir that wrote it."""
    made_at: datetime
    home: str
    """The state directory at that time."""


class BackupFile(BaseModel):
    """One file of a backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["file", "link", "directory"]
    size: int = 0
    """In bytes."""
    sha256: str = ""
    """Of the content; of the target of a link."""


class BackupManifest(BaseModel):
    """The last file of a backup: every other file with its checksum, and the state of the database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    postgres: str
    roles: list[str]
    """The database roles of agents, and of Choir on a Postgres elsewhere: the dump refers to them."""
    schemas: dict[str, str]
    """The revision of each schema."""
    secrets: bool
    """Whether secrets.json, audit-keys.json and the TLS keys are included."""
    workspaces: bool
    skipped: list[str] = Field(default_factory=list)
    """Files that could not be read, at most 50 of them, each with the reason."""
    files: dict[str, BackupFile]

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.size for file in self.files.values())
