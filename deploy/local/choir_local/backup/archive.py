"""The backup as a tar archive: writing it in one pass, and reading one that may be hostile.

It is not compressed (the dump is): so its files cannot be larger than itself, and there is no bomb. Reading
accepts plain files, directories and links only, and nothing is believed before the manifest confirmed it.
"""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Self, cast

from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_local.backup.age import CleartextSource, CleartextWriter
from choir_local.backup.manifest import (
    FORMAT,
    HEAD,
    MANIFEST,
    BackupFile,
    BackupHead,
    BackupManifest,
)

BLOCK = 1 << 20
MAX_EXTENDED_HEADER = 64 * 1024
MAX_HEAD = 64 * 1024
MAX_MANIFEST = 512 << 20
MAX_NAME = 4000  # bytes; a path has 4096 at most
READABLE = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE})
BROKEN = _("The backup was damaged or changed")


class BackupWriter:
    """Writer of a backup. Holds one block of a file at a time, and the list of files."""

    def __init__(self, sink: CleartextWriter, head: BackupHead) -> None:
        self._tar = tarfile.open(  # noqa: SIM115 - closed by `finish`
            fileobj=cast("IO[bytes]", sink), mode="w|", format=tarfile.PAX_FORMAT
        )
        self.files: dict[str, BackupFile] = {}
        self.add_bytes(HEAD, head.model_dump_json(indent=1).encode())

    def add_bytes(self, name: str, data: bytes) -> None:
        """Add a file with this content."""
        info = _entry(name, 0o600, len(data))
        self._tar.addfile(info, io.BytesIO(data))
        self._note(name, BackupFile(kind="file", size=len(data), sha256=_digest(data)))

    def add_file(self, name: str, file: IO[bytes]) -> None:
        """Add an open file as long as it is now. One that is cut meanwhile is filled up with zeros."""
        status = os.fstat(file.fileno())
        reader = _ExactReader(file, status.st_size)
        self._tar.addfile(_entry(name, status.st_mode & 0o777, status.st_size), reader)
        digest = reader.hash.hexdigest()
        self._note(name, BackupFile(kind="file", size=status.st_size, sha256=digest))

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        info = _entry(name, 0o777, 0)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)
        self._note(name, BackupFile(kind="link", sha256=_digest(os.fsencode(target))))

    def add_directory(self, name: str, mode: int) -> None:
        """Add a directory, which may be empty."""
        info = _entry(name, mode & 0o777, 0)
        info.type = tarfile.DIRTYPE
        self._tar.addfile(info)
        self._note(name, BackupFile(kind="directory"))

    def finish(self, manifest: BackupManifest) -> None:
        """Write the manifest and the end of the archive."""
        text = manifest.model_dump_json().encode()
        self._tar.addfile(_entry(MANIFEST, 0o600, len(text)), io.BytesIO(text))
        self._tar.close()

    def _note(self, name: str, file: BackupFile) -> None:
        self.files[name] = file


class _ExactReader(io.RawIOBase):
    """The first `size` bytes of a file that may change, with their checksum."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._rest = size
        self.hash = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        count = self._rest if size < 0 else min(size, self._rest)
        data = self._file.read(count)
        data += bytes(count - len(data))
        self._rest -= len(data)
        self.hash.update(data)
        return data


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """One file while it is read. `blocks` has its content and must be read to its end."""

    name: str
    kind: str
    mode: int
    target: str
    """Of a link."""
    blocks: Iterator[bytes]


class _StrictTarInfo(tarfile.TarInfo):
    """Header that refuses what no backup has, before tarfile reads or allocates anything for it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type == tarfile.XHDTYPE:
            if info.size > MAX_EXTENDED_HEADER:
                raise InvalidRequest(
                    _("{broken}: a header of {size} bytes.").format(broken=BROKEN, size=info.size)
                )
        elif info.type not in READABLE:
            raise InvalidRequest(
                _("{broken}: {name!r} is not a file, a directory or a link.").format(
                    broken=BROKEN, name=info.name
                )
            )
        return info


def read_archive(
    source: CleartextSource, take: Callable[[BackupHead, BackupEntry], None]
) -> tuple[BackupHead, BackupManifest]:
    """Read a backup to its end; pass each file to `take`, which must not use it before this returned.

    Raises InvalidRequest for anything that is not a whole, unchanged backup that this version can read.
    """
    try:
        tar = tarfile.open(  # noqa: SIM115 - there is nothing to close
            fileobj=cast("IO[bytes]", source),
            mode="r|",
            tarinfo=_StrictTarInfo,
            encoding="utf-8",
            errors="surrogateescape",
        )
        return _read_members(tar, take)
    # a wrong number or text in a header raises ValueError in some places
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InvalidRequest(f"{BROKEN}: {error}.") from error


def _read_members(
    tar: tarfile.TarFile, take: Callable[[BackupHead, BackupEntry], None]
) -> tuple[BackupHead, BackupManifest]:
    first = tar.next()
    if first is None or first.name != HEAD or not first.isreg():
        raise InvalidRequest(_("The file is not a backup of a Choir home."))
    text = _read_small(tar, first, MAX_HEAD)
    head = _parse_head(text)
    seen = {HEAD: BackupFile(kind="file", size=len(text), sha256=_digest(text))}
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined] # tarfile would keep each of them
        if member.name == MANIFEST:
            manifest = _parse_manifest(_read_small(tar, member, MAX_MANIFEST))
            _compare(seen, manifest)
            return head, manifest
        name = check_name(member.name)
        if name in seen:
            raise InvalidRequest(
                _("{broken}: it contains {name!r} twice.").format(broken=BROKEN, name=name)
            )
        seen[name] = _pass_on(tar, member, head, take)
    raise InvalidRequest(
        _("{broken}: it has no manifest, so it is incomplete.").format(broken=BROKEN)
    )


def _pass_on(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    head: BackupHead,
    take: Callable[[BackupHead, BackupEntry], None],
) -> BackupFile:
    if member.isdir():
        take(head, BackupEntry(member.name, "directory", member.mode & 0o777, "", iter(())))
        return BackupFile(kind="directory")
    if member.issym():
        take(head, BackupEntry(member.name, "link", 0o777, member.linkname, iter(())))
        target = member.linkname.encode("utf-8", "surrogateescape")
        return BackupFile(kind="link", sha256=_digest(target))
    if not member.isreg() or member.sparse is not None:
        raise InvalidRequest(
            _("{broken}: {name!r} is not a plain file.").format(broken=BROKEN, name=member.name)
        )
    hash_ = hashlib.sha256()
    blocks = _blocks(tar, member, hash_.update)
    take(head, BackupEntry(member.name, "file", member.mode & 0o777, "", blocks))
    return BackupFile(kind="file", size=member.size, sha256=hash_.hexdigest())


def _blocks(
    tar: tarfile.TarFile, member: tarfile.TarInfo, update: Callable[[bytes], object]
) -> Iterator[bytes]:
    file, rest = tar.extractfile(member), member.size
    while file is not None and rest:
        block = file.read(min(BLOCK, rest))
        if not block:
            raise InvalidRequest(
                _("{broken}: it ends inside {name!r}.").format(broken=BROKEN, name=member.name)
            )
        update(block)
        rest -= len(block)
        yield block


def check_name(name: str) -> str:
    """Return the name of a file in an archive. Raises InvalidRequest if it could lead elsewhere."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name != "/".join(parts)
        or name.startswith("/")
        or ".." in parts
        or "\0" in name
        or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME
    ):
        raise InvalidRequest(
            _("{broken}: {name!r} is not a path inside it.").format(broken=BROKEN, name=name[:200])
        )
    return name


def _compare(seen: dict[str, BackupFile], manifest: BackupManifest) -> None:
    for name in seen.keys() ^ manifest.files.keys():
        where = _("manifest does not list") if name in seen else _("file lacks")
        raise InvalidRequest(
            _("{broken}: the {where} {name!r}.").format(broken=BROKEN, where=where, name=name)
        )
    for name, file in seen.items():
        if manifest.files[name] != file:
            raise InvalidRequest(
                _("{broken}: the checksum of {name!r} does not match.").format(
                    broken=BROKEN, name=name
                )
            )


def _read_small(tar: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> bytes:
    if member.size > most or not member.isreg():
        raise InvalidRequest(
            _("{broken}: {name} has {size} bytes.").format(
                broken=BROKEN, name=member.name, size=member.size
            )
        )
    return b"".join(_blocks(tar, member, len))


def _parse_head(text: bytes) -> BackupHead:
    try:
        head = BackupHead.model_validate_json(text)
    except ValidationError:
        raise InvalidRequest(
            _("{broken}: {head} cannot be read.").format(broken=BROKEN, head=HEAD)
        ) from None
    if head.format > FORMAT:
        raise InvalidRequest(
            _(
                "The backup was made by Choir {choir} in a newer format. Restore it with that "
                "version."
            ).format(choir=head.choir)
        )
    return head


def _parse_manifest(text: bytes) -> BackupManifest:
    try:
        return BackupManifest.model_validate_json(text)
    except ValidationError:
        raise InvalidRequest(
            _("{broken}: {manifest} cannot be read.").format(broken=BROKEN, manifest=MANIFEST)
        ) from None


def _entry(name: str, mode: int, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.size = mode, size
    return info


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
