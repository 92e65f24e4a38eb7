"""Spool of outgoing files, from the event that sends them until delivery.

Files are copied, so that later changes by the agent do not affect what is sent. Copies are stored under the
hash of their event: a repeated append finds its own copies, and a failed one leaves others unchanged.
"""

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import Attachment, SentFile
from choir_control.workspaces.staging import open_outgoing_file

_OWN = 0o600
PIECE = 1024 * 1024


class SpooledFile(SentFile):
    """A file that was copied to the spool."""

    size: int = Field(ge=0)
    place: str = Field(pattern=r"^[0-9a-f]{64}/\d{1,3}$")
    """Path of the copy, relative to the spool."""

    @property
    def event_hash(self) -> str:
        """Return the hash of the event that sent the file."""
        return self.place.partition("/")[0]


_FILES: TypeAdapter[tuple[SpooledFile, ...]] = TypeAdapter(tuple[SpooledFile, ...])


def parse_files(text: str | None) -> tuple[SpooledFile, ...]:
    """Parse the column `files`."""
    return _FILES.validate_json(text) if text else ()


def dump_files(files: tuple[SpooledFile, ...]) -> str | None:
    """Return the value of the column `files`; None if there are no files."""
    return _FILES.dump_json(files).decode() if files else None


def make_attachments(files: tuple[SpooledFile, ...]) -> tuple[Attachment, ...]:
    """Return the attachments for the gateway, which requests a file by its number."""
    return tuple(
        Attachment(name=file.name, kind=file.kind, mime=file.mime, size=file.size, ref=str(number))
        for number, file in enumerate(files)
    )


@dataclass(frozen=True, slots=True)
class SpoolResult:
    """The copies that were made, and a message for each file that could not be copied."""

    files: tuple[SpooledFile, ...]
    problems: tuple[str, ...]


class FileSpool:
    """The directory of outgoing files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep(
        self, event_hash: str, workspace: Path, files: Sequence[SentFile], most_bytes: int
    ) -> SpoolResult:
        """Copy files out of a workspace; blocks. A file that cannot be copied becomes a problem message."""
        copies: list[SpooledFile] = []
        problems: list[str] = []
        for number, file in enumerate(files):
            relative_path = f"{event_hash}/{number}"
            try:
                size = self._copy(relative_path, workspace, file.path, most_bytes)
            except OSError as error:
                problems.append(f"{file.name} could not be sent: {error.strerror or error}.")
                continue
            copies.append(SpooledFile(**file.model_dump(), size=size, place=relative_path))
        return SpoolResult(tuple(copies), tuple(problems))

    def path_of(self, file: SpooledFile) -> Path:
        """Return the path of a copy."""
        return self._root / file.place

    def drop(self, event_hash: str) -> None:
        """Remove an event's copies; blocks."""
        shutil.rmtree(self._root / event_hash, ignore_errors=True)

    def hashes(self, older_than_s: float, now: float) -> list[str]:
        """Return the event hashes of copies older than `older_than_s` seconds; blocks."""
        hashes: list[str] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > older_than_s:
                        hashes.append(entry.name)
        return hashes

    def _copy(self, relative_path: str, workspace: Path, path: str, most_bytes: int) -> int:
        target = self._root / relative_path
        with contextlib.suppress(FileNotFoundError):
            return target.stat().st_size
        source, size = open_outgoing_file(workspace, path)
        with open(source, "rb", buffering=0) as reading:  # noqa: PTH123 - a descriptor
            if size > most_bytes:
                raise OSError(0, f"it has more than {most_bytes // PIECE} MB (limits.sent_mb)")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = target.with_suffix(".part")
            byte_count = 0
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWN), "wb") as writing:  # noqa: PTH123
                # the file may grow while it is read: only the measured size is sent
                while byte_count < size and (piece := reading.read(min(PIECE, size - byte_count))):
                    writing.write(piece)
                    byte_count += len(piece)
            draft.rename(target)
        return byte_count
