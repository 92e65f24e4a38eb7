"""Merge of the global and the agent's repository into one /choir. Pure except for reading manifests.

Called by `build`. An agent's tool or skill replaces a global one of the same name. USER.md comes from
the global repository only; the other identity files come from the agent's repository, then the global
one. A file that neither has comes from Choir's defaults.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import PurePosixPath

import orjson

from choir_control.images.port import Piece
from choir_control.repos.contents import manifests_of
from choir_control.repos.tree import Tree

SHARED = ("USER.md",)
PERSONAL = ("SOUL.md", "SOUL-CORE.md")
DEFAULTS = "choir_control.configuration.defaults"
KEEP = ".gitkeep"


def merge(shared: Tree | None, own: Tree | None) -> tuple[Piece, ...]:
    """Return the files of /choir, sorted by path; blocking."""
    pieces = [*_tools(shared, own), *_skills(shared, own), *_identity(shared, own)]
    return tuple(sorted(pieces, key=lambda piece: piece.path))


def _tools(shared: Tree | None, own: Tree | None) -> Iterator[Piece]:
    overridden = _overridden(shared, own) if shared and own else frozenset[str]()
    if shared:
        for path, piece in _below(shared, "tools", "tools/global"):
            if _stem(path) not in overridden:
                yield piece
    if own:
        yield from (piece for _, piece in _below(own, "tools", "tools/agent"))


def _overridden(shared: Tree, own: Tree) -> frozenset[str]:
    """Return the stems of global tools that the agent replaces, by file name or by tool name."""
    # by tool name as well: files may be named differently
    ours = manifests_of(own)
    names = {manifest.llm.name for manifest in ours.values()}
    theirs = manifests_of(shared).items()
    return frozenset(stem for stem, theirs_ in theirs if stem in ours or theirs_.llm.name in names)


def _skills(shared: Tree | None, own: Tree | None) -> Iterator[Piece]:
    found: dict[str, Piece] = {}
    for tree in (shared, own):
        if tree is None:
            continue
        named = dict(_named_skills(tree))
        # one file per skill name: the agent's wins, even if the file names differ
        for path in [p for p, piece in found.items() if _skill_name(piece) in named]:
            del found[path]
        found |= {piece.path: piece for piece in named.values()}
    yield from found.values()


def _named_skills(tree: Tree) -> Iterator[tuple[str, Piece]]:
    for path, piece in _below(tree, "skills", "skills"):
        if path.endswith(".json") and "/" not in path:
            yield _skill_name(piece), piece


def _skill_name(piece: Piece) -> str:
    content = piece.content if isinstance(piece.content, bytes) else piece.content.read_bytes()
    return str(orjson.loads(content)["name"])


def _identity(shared: Tree | None, own: Tree | None) -> Iterator[Piece]:
    for name in SHARED:
        yield _first(name, shared)
    for name in PERSONAL:
        yield _first(name, own, shared)


def _first(name: str, *trees: Tree | None) -> Piece:
    for tree in trees:
        if tree is not None and f"identity/{name}" in tree.files:
            return Piece(name, tree.root / "identity" / name)
    return Piece(name, (files(DEFAULTS) / name).read_bytes())


def _below(tree: Tree, folder: str, target: str) -> Iterator[tuple[str, Piece]]:
    """Yield the files of a folder, each with its path inside it and as a piece."""
    for path, entry in tree.files.items():
        inner = path.removeprefix(f"{folder}/")
        if inner != path and PurePosixPath(path).name != KEEP:
            yield inner, Piece(f"{target}/{inner}", tree.root / path, entry.executable)


def _stem(inner: str) -> str:
    """Return the tool that a file of tools/ belongs to: `a` for a.json, a, and everything in a/."""
    first = PurePosixPath(inner).parts[0]
    return first.removesuffix(".json")
