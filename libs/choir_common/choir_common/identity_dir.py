"""Content hashes of the identity directory `/choir`, and its version file.

Used by control when it builds an image and by the agent when it sends INIT_HELLO. If the hashes differ, the
agent does not run what control built. See docs/design/security.md.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

VERSION_FILE = "version.json"
TOOLS_DIR = "tools"
SKILLS_DIR = "skills"
SKILL_FOLDERS_DIR = "skills/folders"
"""Folders with a SKILL.md, by name. Directly in `skills`, their JSON files could be state machines."""
CHUNK_BYTES = 1 << 20


class ImageVersion(BaseModel):
    """The file `/choir/version.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: str
    image_version: str = ""
    """Empty for an agent without repositories, which has no image."""
    global_repo_commit: str = ""
    agent_repo_commit: str = ""
    tool_manifest_hash: str = ""
    """Hash of all files below /choir/tools, executables included."""
    skill_manifest_hash: str = ""
    """Hash of all files below /choir/skills."""


def hash_files(files: Iterable[tuple[str, bool, str]]) -> str:
    """Return one hash for files as (path, is executable, SHA-256 of the content)."""
    lines = sorted(f"{path}\0{'x' if runs else '-'}\0{digest}\n" for path, runs, digest in files)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def hash_directory(directory: Path) -> str:
    """Return the hash of all files below `top` except version.json. Blocks.

    A missing directory has the hash of an empty one.
    """
    return hash_files(
        (path.relative_to(directory).as_posix(), *_describe(path))
        for path in directory.rglob("*")
        if (path.is_symlink() or not path.is_dir()) and path != directory / VERSION_FILE
    )


def read_version(choir_dir: Path) -> ImageVersion | None:
    """Return the parsed version.json, or None if it is missing or invalid. Blocks."""
    try:
        return ImageVersion.model_validate_json((choir_dir / VERSION_FILE).read_bytes())
    except (OSError, ValueError):
        return None


def _describe(path: Path) -> tuple[bool, str]:
    if path.is_symlink():
        return False, f"-> {path.readlink()}"
    if not path.is_file():
        return False, "special"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return bool(path.stat().st_mode & 0o111), digest.hexdigest()
