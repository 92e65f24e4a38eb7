"""Merge of the global and the agent's repository into one /choir. Pure except for reading manifests.

An agent's tool or skill replaces a global one of the same name. USER.md comes from the global
repository only; the other identity files come from the agent's repository, then the global one. A
file that neither has comes from Choir's defaults.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import PurePosixPath

import orjson

from choir_common.identity_dir import SKILL_FOLDERS_DIR
from choir_control.images.builder import ImageFile
from choir_control.images.repositories.content_checks import read_manifests
from choir_control.images.repositories.skill_folders import skill_folders
from choir_control.images.repositories.tree import RepositoryTree

GLOBAL_IDENTITY_FILES = ("USER.md",)
AGENT_IDENTITY_FILES = ("SOUL.md", "SOUL-CORE.md")
DEFAULTS_PACKAGE = "choir_control.configuration.defaults"
PLACEHOLDER_FILE = ".gitkeep"


def merge_repositories(
    global_tree: RepositoryTree | None, agent_tree: RepositoryTree | None
) -> tuple[ImageFile, ...]:
    """Return the files of /choir, sorted by path; blocking."""
    pieces = [
        *_tools(global_tree, agent_tree),
        *_skills(global_tree, agent_tree),
        *_skill_folders(global_tree, agent_tree),
        *_identity(global_tree, agent_tree),
    ]
    return tuple(sorted(pieces, key=lambda piece: piece.path))


def _tools(shared: RepositoryTree | None, own: RepositoryTree | None) -> Iterator[ImageFile]:
    overridden = _overridden(shared, own) if shared and own else frozenset[str]()
    if shared:
        for path, piece in _below(shared, "tools", "tools/global"):
            if _stem(path) not in overridden:
                yield piece
    if own:
        yield from (piece for _, piece in _below(own, "tools", "tools/agent"))


def _overridden(shared: RepositoryTree, own: RepositoryTree) -> frozenset[str]:
    """Return the stems of global tools that the agent replaces, by file name or by tool name."""
    # by tool name as well: files may be named differently
    ours = read_manifests(own)
    names = {manifest.llm.name for manifest in ours.values()}
    theirs = read_manifests(shared).items()
    return frozenset(stem for stem, theirs_ in theirs if stem in ours or theirs_.llm.name in names)


def _skills(shared: RepositoryTree | None, own: RepositoryTree | None) -> Iterator[ImageFile]:
    pieces: dict[str, ImageFile] = {}
    for tree in (shared, own):
        if tree is None:
            continue
        skill_files = dict(_named_skills(tree))
        # one file per skill name: the agent's wins, even if the file names differ
        for path in [p for p, piece in pieces.items() if _skill_name(piece) in skill_files]:
            del pieces[path]
        pieces |= {piece.path: piece for piece in skill_files.values()}
    yield from pieces.values()


def _named_skills(tree: RepositoryTree) -> Iterator[tuple[str, ImageFile]]:
    for path, piece in _below(tree, "skills", "skills"):
        if path.endswith(".json") and "/" not in path:
            yield _skill_name(piece), piece


def _skill_name(piece: ImageFile) -> str:
    content = piece.content if isinstance(piece.content, bytes) else piece.content.read_bytes()
    return str(orjson.loads(content)["name"])


def _skill_folders(
    shared: RepositoryTree | None, own: RepositoryTree | None
) -> Iterator[ImageFile]:
    overriding = {name for name, _ in skill_folders(own)} if own else set[str]()
    for tree in (shared, own):
        if tree is None:
            continue
        for name, entries in skill_folders(tree):
            if tree is shared and name in overriding:
                continue
            for entry in entries:
                target = entry.path.removeprefix("skills/")
                yield ImageFile(
                    f"{SKILL_FOLDERS_DIR}/{target}", tree.root / entry.path, entry.executable
                )


def _identity(shared: RepositoryTree | None, own: RepositoryTree | None) -> Iterator[ImageFile]:
    for name in GLOBAL_IDENTITY_FILES:
        yield _first(name, shared)
    for name in AGENT_IDENTITY_FILES:
        yield _first(name, own, shared)


def _first(name: str, *trees: RepositoryTree | None) -> ImageFile:
    for tree in trees:
        if tree is not None and f"identity/{name}" in tree.files:
            return ImageFile(name, tree.root / "identity" / name)
    return ImageFile(name, (files(DEFAULTS_PACKAGE) / name).read_bytes())


def _below(tree: RepositoryTree, folder: str, target: str) -> Iterator[tuple[str, ImageFile]]:
    """Yield the files of a folder, each with its path inside it and as a piece."""
    for path, entry in tree.files.items():
        inner = path.removeprefix(f"{folder}/")
        if inner != path and PurePosixPath(path).name != PLACEHOLDER_FILE:
            yield inner, ImageFile(f"{target}/{inner}", tree.root / path, entry.executable)


def _stem(inner: str) -> str:
    """Return the tool that a file of tools/ belongs to: `a` for a.json, a, and everything in a/."""
    first = PurePosixPath(inner).parts[0]
    return first.removesuffix(".json")
