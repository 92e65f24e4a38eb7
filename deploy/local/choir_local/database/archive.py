"""The backup file: a tar archive of the parts, preceded by a manifest with their checksums.

The manifest names the format's version, so that a later Choir can read it and an earlier one refuses it.
"""

import hashlib
import io
import os
import tarfile
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _

FORMAT = 1
MANIFEST = "manifest.json"
DUMP = "database.dump"
CONFIG = "config.json"
SECRETS = "secrets.json"
AUDIT_KEYS = "audit-keys.json"
PARTS = (DUMP, CONFIG, SECRETS, AUDIT_KEYS)
BLOCK = 1 << 20
MANIFEST_MOST = 1 << 20


class ManifestPart(BaseModel):
    """One file of the backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Manifest(BaseModel):
    """The contents of a backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    choir: str
    made_at: datetime
    postgres: str
    roles: list[str]
    """The agents' database roles, which the dump refers to."""
    schemas: dict[str, str]
    """The revision of each schema."""
    parts: dict[str, ManifestPart]


def describe(path: Path) -> ManifestPart:
    """Return a file's size and checksum."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return ManifestPart(size=path.stat().st_size, sha256=digest.hexdigest())


def pack(manifest: Manifest, directory: Path, target: Path) -> None:
    """Write the backup atomically, readable only by its owner. Raises OSError."""
    partial = target.with_name(f".{target.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with tarfile.open(fileobj=raw, mode="w|") as tar:
                text = manifest.model_dump_json(indent=2).encode()
                head = tarfile.TarInfo(MANIFEST)
                head.size, head.mode = len(text), 0o600
                tar.addfile(head, io.BytesIO(text))
                for name in manifest.parts:
                    tar.add(directory / name, arcname=name, filter=_plain)
            raw.flush()
            os.fsync(raw.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def unpack(source: Path, directory: Path) -> Manifest:
    """Extract the parts into `directory` and verify them.

    Raises InvalidRequest for a file that is not a backup, has a newer format, or is damaged.
    """
    try:
        with tarfile.open(source, mode="r:") as tar:
            manifest = _read_manifest(tar, source)
            for name in manifest.parts:
                if name not in PARTS:
                    raise InvalidRequest(
                        _("{source} contains the unexpected file {name!r}.").format(
                            source=source, name=name
                        )
                    )
                _extract(tar, name, directory / name)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise InvalidRequest(
            _("{source} is not a complete Choir backup: {error}.").format(
                source=source, error=error
            )
        ) from error
    for name, part in manifest.parts.items():
        if describe(directory / name) != part:
            raise InvalidRequest(
                _("{source} is damaged: the checksum of {name} does not match.").format(
                    source=source, name=name
                )
            )
    if DUMP not in manifest.parts:
        raise InvalidRequest(_("{source} contains no database.").format(source=source))
    return manifest


def _read_manifest(tar: tarfile.TarFile, source: Path) -> Manifest:
    member = tar.next()
    if member is None or member.name != MANIFEST or member.size > MANIFEST_MOST:
        raise InvalidRequest(_("{source} is not a Choir backup.").format(source=source))
    file = tar.extractfile(member)
    text = file.read() if file else b""
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError:
        raise InvalidRequest(
            _("{source} has a manifest that this version of Choir cannot read.").format(
                source=source
            )
        ) from None
    if manifest.format > FORMAT:
        raise InvalidRequest(
            _(
                "{source} was made by Choir {choir} in a newer format. Restore it with that "
                "version."
            ).format(source=source, choir=manifest.choir)
        )
    return manifest


def _extract(tar: tarfile.TarFile, name: str, target: Path) -> None:
    file = tar.extractfile(name)
    if file is None:
        raise KeyError(name)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        while block := file.read(BLOCK):
            out.write(block)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o600
    return info
