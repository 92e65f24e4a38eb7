"""Pack the build context, and describe the built files. Called by `docker`; independent of the engine."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from choir_control.images.port import Piece, Recipe

Files = Mapping[str, tuple[bytes | Path, bool]]


def choir_files(pieces: list[Piece]) -> Files:
    """Return the files for /choir."""
    return {
        "choir/": (b"", True),
        **{f"choir/{piece.path}": (piece.content, piece.executable) for piece in pieces},
    }


def own_files(recipe: Recipe) -> Files:
    """Return the files of the agent's repository, as the context of its Dockerfile."""
    own = recipe.own
    if own is None:
        return {}
    return {path: (own.root / path, entry.executable) for path, entry in own.files.items()}


def context(dockerfile: str, files: Files) -> io.BytesIO:
    """Return a build context; times and owners are fixed, so that equal contents give equal layers."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, (content, executable) in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            _add(archive, path, data, 0o755 if executable else 0o644)
        _add(archive, ".choir-dockerfile", dockerfile.encode(), 0o644)
    made.seek(0)
    return made


def _add(archive: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    member = tarfile.TarInfo(path.rstrip("/"))
    if path.endswith("/"):
        member.type = tarfile.DIRTYPE
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def describe_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, bool, str]:
    """Return a file's path below /choir, whether it is executable, and the hash of its content."""
    path = member.name.removeprefix("choir/")
    if member.issym():
        return path, False, f"-> {member.linkname}"
    file = archive.extractfile(member) if member.isfile() or member.islnk() else None
    if file is None:
        return path, False, "special"
    return path, bool(member.mode & 0o111), hashlib.sha256(file.read()).hexdigest()
