"""Skill folders of a repository: `skills/NAME/` with a SKILL.md. Functions that read contents block.

A build refuses a folder that a person cannot read. Whether somebody approved it is checked by the agent, by
its hash.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.skill_folders.folder import (
    MAX_FILE_BYTES,
    MAX_FILES,
    SkillFolderFile,
    make_skill_folder,
)
from choir_common.skill_folders.front_matter import SKILL_FILE
from choir_common.skill_folders.scan import find_refusals
from choir_control.images.repositories.tree import RepositoryTree, TreeEntry

MAX_FOLDERS = 200
MAX_FAULTS_PER_FOLDER = 5


def skill_folders(tree: RepositoryTree) -> Iterator[tuple[str, list[TreeEntry]]]:
    """Yield the name and the files of each folder below `skills/` that has a SKILL.md."""
    names = [
        PurePosixPath(path).parts[1]
        for path in sorted(tree.files)
        if PurePosixPath(path).match(f"skills/*/{SKILL_FILE}") and path.count("/") == 2
    ]
    for name in names:
        top = f"skills/{name}/"
        yield name, [entry for path, entry in sorted(tree.files.items()) if path.startswith(top)]


def skill_folder_faults(tree: RepositoryTree) -> Iterator[str]:
    """Yield every fault, each with the file and the reason."""
    folders = list(skill_folders(tree))
    if len(folders) > MAX_FOLDERS:
        yield f"skills/: {len(folders)} skill folders; the limit is {MAX_FOLDERS}"
        return
    for name, entries in folders:
        yield from (f"skills/{name}/: {fault}" for fault in _faults(tree, name, entries))


def _faults(tree: RepositoryTree, name: str, entries: list[TreeEntry]) -> Iterator[str]:
    # before anything is read: a repository's own limits are much higher
    if len(entries) > MAX_FILES or any(entry.size > MAX_FILE_BYTES for entry in entries):
        yield f"more than {MAX_FILES} files, or a file with more than {MAX_FILE_BYTES >> 20} MiB"
        return
    top = f"skills/{name}/"
    try:
        folder = make_skill_folder(
            SkillFolderFile(entry.path.removeprefix(top), tree.read(entry.path), entry.executable)
            for entry in entries
        )
    except InvalidRequest as error:
        yield error.message.rstrip(".")
        return
    if folder.name != name:
        yield f"{SKILL_FILE}: name: {folder.name!r} is not the name of the folder"
    yield from map(str, find_refusals(folder)[:MAX_FAULTS_PER_FOLDER])
