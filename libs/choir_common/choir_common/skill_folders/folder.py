"""A skill folder in memory: read within limits, without following any link, and hashed.

Everything that is shown, approved and written comes from this one copy, so no file can change in between.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.identity_dir import hash_files
from choir_common.skill_folders.front_matter import SKILL_FILE, FrontMatter, parse_skill_text

MAX_FILES = 200
MAX_FILE_BYTES = 1 << 20
MAX_FOLDER_BYTES = 5 << 20
MAX_SKILL_TEXT = 100_000
MAX_DEPTH = 6
SCRIPTS = "scripts/"
_PART = re.compile(r"[A-Za-z0-9_@+(][A-Za-z0-9._@+() -]{0,99}")


@dataclass(frozen=True, slots=True)
class SkillFolderFile:
    """A file of a skill folder; `path` is relative to it."""

    path: str
    content: bytes
    executable: bool = False

    def text(self) -> str | None:
        """Return the content as text, or None for a binary file."""
        if b"\0" in self.content:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A valid skill folder."""

    front: FrontMatter
    body: str
    files: tuple[SkillFolderFile, ...]
    sha256: str
    unknown_fields: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.front.name

    def find(self, path: str) -> SkillFolderFile | None:
        """Return the file with exactly this path, or None."""
        return next((file for file in self.files if file.path == path), None)


def make_skill_folder(files: Iterable[SkillFolderFile]) -> SkillFolder:
    """Return the folder with these files; raises InvalidRequest for anything that is not allowed."""
    content = tuple(sorted(files, key=lambda file: file.path))
    _check_limits(content)
    skill_file = next((file for file in content if file.path == SKILL_FILE), None)
    if skill_file is None:
        raise InvalidRequest(
            _("There is no {skill_file} in the folder.").format(skill_file=SKILL_FILE)
        )
    text = skill_file.text()
    if text is None or len(text) > MAX_SKILL_TEXT:
        raise InvalidRequest(
            _("{skill_file} must be UTF-8 text of at most {max_skill_text} characters.").format(
                skill_file=SKILL_FILE, max_skill_text=MAX_SKILL_TEXT
            )
        )
    front, body, unknown = parse_skill_text(text)
    digest = hash_files(
        (file.path, file.executable, hashlib.sha256(file.content).hexdigest()) for file in content
    )
    return SkillFolder(front, body, content, digest, unknown)


def read_skill_folder(top: Path, *, skip_hidden: bool = False) -> SkillFolder:
    """Read a folder. Blocks.

    Raises InvalidRequest for a link, a device, an odd path, or a folder beyond the limits.
    `skip_hidden`: leave out files and folders whose name begins with a dot, such as `.git`, and
    caches of Python.
    """
    files: list[SkillFolderFile] = []
    total = 0
    try:
        for path, relative in _walk(top, skip_hidden):
            file = _read(path, relative)
            total += len(file.content)
            files.append(file)
            # before the next one is read: the sum must not fill the memory
            if len(files) > MAX_FILES or total > MAX_FOLDER_BYTES:
                raise InvalidRequest(_too_large())
    except OSError as error:
        raise InvalidRequest(
            _("The skill folder {top} cannot be read: {error}.").format(
                top=top, error=error.strerror
            )
        ) from None
    return make_skill_folder(files)


def find_path_fault(path: str) -> str | None:
    """Return why a path must not be in a skill folder, or None."""
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} folders"
    if not all(_PART.fullmatch(part) and not part.endswith((" ", ".")) for part in parts):
        return (
            "is not a plain path: names have letters, digits, spaces and ._@+()- only, and begin with "
            "no dot or hyphen"
        )
    return None


def _check_limits(files: tuple[SkillFolderFile, ...]) -> None:
    if len(files) > MAX_FILES or sum(len(file.content) for file in files) > MAX_FOLDER_BYTES:
        raise InvalidRequest(_too_large())
    names = {file.path.casefold() for file in files}
    for file in files:
        fault = find_path_fault(file.path)
        if fault is not None:
            raise InvalidRequest(f"{file.path[:120]!r} {fault}.")
        if len(file.content) > MAX_FILE_BYTES:
            raise InvalidRequest(_too_large_file(file.path))
        if any(str(above).casefold() in names for above in PurePosixPath(file.path).parents):
            raise InvalidRequest(_("{file!r} is below a file.").format(file=file.path))
    if len(names) != len(files):
        raise InvalidRequest(_("Two paths differ only in upper and lower case, or are equal."))


def _too_large() -> str:
    return f"A skill folder has at most {MAX_FILES} files and {MAX_FOLDER_BYTES >> 20} MiB."


def _too_large_file(path: str) -> str:
    return f"{path[:120]!r} has more than {MAX_FILE_BYTES >> 20} MiB."


def _walk(top: Path, skip_hidden: bool, below: str = "") -> Iterator[tuple[Path, str]]:
    with os.scandir(top) as entries:
        names = sorted(entries, key=lambda entry: entry.name)
    for entry in names:
        if skip_hidden and (entry.name.startswith(".") or entry.name == "__pycache__"):
            continue
        relative = f"{below}{entry.name}"
        fault = find_path_fault(relative)
        if fault is not None:
            raise InvalidRequest(f"{relative[:120]!r} {fault}.")
        if entry.is_symlink():
            raise InvalidRequest(
                _("{relative!r} is a symbolic link; a skill has plain files only.").format(
                    relative=relative
                )
            )
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), skip_hidden, f"{relative}/")
        else:
            yield Path(entry.path), relative


def _read(path: Path, relative: str) -> SkillFolderFile:
    # Not through a link that has just replaced the file, and without waiting for a pipe's other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidRequest(_("{relative!r} is no plain file.").format(relative=relative))
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InvalidRequest(_too_large_file(relative))
    return SkillFolderFile(relative, content, bool(status.st_mode & 0o111))
