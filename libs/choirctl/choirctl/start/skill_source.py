"""Sources of skill folders for `choirctl skill add`: a folder, a ZIP archive or a git repository.

The contents come into memory, or a temporary folder that is removed: nothing is stored before a yes.
"""

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.skill_folders.folder import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_FOLDER_BYTES,
    SkillFolder,
    SkillFolderFile,
    find_path_fault,
    make_skill_folder,
    read_skill_folder,
)
from choir_common.skill_folders.front_matter import SKILL_FILE
from choirctl.start.git_clone import cloned_repository, is_git_address

MAX_ENTRIES = 5_000
MAX_ARCHIVE_BYTES = 50 << 20


def fetch_skill(source: str, below: str = "") -> SkillFolder:
    """Return the skill folder at `source`; `below` is its folder in there. Blocks.

    Raises InvalidRequest for anything that is not allowed, and Unavailable if git fails.
    """
    if below and find_path_fault(below) is not None:
        raise InvalidRequest(
            _("--path {below!r} is no plain path inside the source.").format(below=below)
        )
    path = Path(source).expanduser()
    if path.is_dir():
        return read_skill_folder(_inside(path, below), skip_hidden=True)
    if path.is_file():
        return _read_archive(path, below)
    if is_git_address(source):
        with cloned_repository(source) as top:
            return read_skill_folder(_inside(top, below), skip_hidden=True)
    raise InvalidRequest(
        _(
            "{source!r} is neither a folder, nor a ZIP archive, nor a git address (https://, "
            "ssh://)."
        ).format(source=source[:200])
    )


def _inside(top: Path, below: str) -> Path:
    place = top / below
    # A link of a repository could lead to any folder of this machine.
    if not place.resolve().is_relative_to(top.resolve()) or not place.is_dir():
        raise InvalidRequest(_("There is no folder {below!r} in it.").format(below=below))
    if not (place / SKILL_FILE).is_file():
        others = sorted(str(p.parent.relative_to(top)) for p in top.glob(f"*/{SKILL_FILE}"))
        others += sorted(str(p.parent.relative_to(top)) for p in top.glob(f"*/*/{SKILL_FILE}"))
        hint = (
            _(" Name one with --path: {names}.").format(names=", ".join(others[:30]))
            if others
            else ""
        )
        raise InvalidRequest(
            _("There is no {skill_file} in {below}.{hint}").format(
                skill_file=SKILL_FILE, below=below or _("its top folder"), hint=hint
            )
        )
    return place


def _read_archive(path: Path, below: str) -> SkillFolder:
    if path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise InvalidRequest(
            _("{path} has more than {max_archive_bytes} MiB.").format(
                path=path, max_archive_bytes=MAX_ARCHIVE_BYTES >> 20
            )
        )
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise InvalidRequest(
                    _("{path} has more than {max_entries} entries.").format(
                        path=path, max_entries=MAX_ENTRIES
                    )
                )
            top = _top_folder([entry.filename for entry in entries], below)
            return make_skill_folder(_unpack(archive, entries, top))
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError) as error:
        raise InvalidRequest(
            _("{path} cannot be read as a ZIP archive: {error}.").format(path=path, error=error)
        ) from None


def _top_folder(names: list[str], below: str) -> str:
    """Return the beginning of the skill's paths in an archive, with its slash, or an empty text."""
    tops = [
        name.removesuffix(SKILL_FILE) for name in names if PurePosixPath(name).name == SKILL_FILE
    ]
    if below:
        tops = [top for top in tops if top in (f"{below}/", f"./{below}/")]
    first = min(tops, key=len, default="")
    # A skill may have a skill as an example below it.
    if all(top.startswith(first) for top in tops):
        tops = [first] if tops else []
    if len(tops) != 1:
        places = ", ".join(top.rstrip("/") or "." for top in tops[:30])
        hint = _("; name one of {places} with --path").format(places=places) if tops else ""
        raise InvalidRequest(
            _("The archive has {count} files {skill_file}{hint}.").format(
                count=len(tops), skill_file=SKILL_FILE, hint=hint
            )
        )
    return tops[0]


def _unpack(
    archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], top: str
) -> list[SkillFolderFile]:
    files: list[SkillFolderFile] = []
    total = 0
    for entry in entries:
        name = entry.filename
        if "\\" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise InvalidRequest(_("{name!r} leads outside the archive.").format(name=name[:120]))
        if not name.startswith(top) or entry.is_dir() or _is_hidden(name.removeprefix(top)):
            continue
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise InvalidRequest(
                _("{name!r} is a link or a device; a skill has plain files only.").format(
                    name=name[:120]
                )
            )
        # With others, zipfile decompresses a whole block: one of 1 MiB can stand for many gigabytes.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidRequest(
                _("{name!r} is not compressed with Deflate, as ZIP files are.").format(
                    name=name[:120]
                )
            )
        # The size that the archive claims is a claim: this reads no more than one byte above the limit.
        with archive.open(entry) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        total += len(content)
        files.append(SkillFolderFile(name.removeprefix(top), content, bool(mode & 0o111)))
        if len(files) > MAX_FILES or total > MAX_FOLDER_BYTES or len(content) > MAX_FILE_BYTES:
            raise InvalidRequest(
                _(
                    "The archive has more than {max_files} files, {max_folder_bytes} MiB, or "
                    "{max_file_bytes} MiB in one file."
                ).format(
                    max_files=MAX_FILES,
                    max_folder_bytes=MAX_FOLDER_BYTES >> 20,
                    max_file_bytes=MAX_FILE_BYTES >> 20,
                )
            )
    return files


def _is_hidden(path: str) -> bool:
    return any(
        part.startswith((".", "__MACOSX", "__pycache__")) for part in PurePosixPath(path).parts
    )
