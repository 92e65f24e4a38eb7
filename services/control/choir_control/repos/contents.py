"""Find what is wrong with a repository's tools, skills, identity and Dockerfile before anything is built.

Called by `images` and when the configuration is loaded (spec 17.6). Blocks: it reads files of a written tree.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pydantic import ValidationError

from choir_common.wire.tool_manifest import ToolManifestFile
from choir_control.repos.tree import Tree

MAX_MANIFEST_BYTES = 256_000
MAX_SKILL_BYTES = 1_000_000
MAX_IDENTITY_BYTES = 200_000
MAX_DOCKERFILE_BYTES = 100_000
BAKED_IN = PurePosixPath("/choir/tools")
_FROM = re.compile(r"^\s*FROM\s+\S+", re.IGNORECASE | re.MULTILINE)
_ARG = re.compile(r"^\s*(ARG\s.*)?$", re.IGNORECASE)


def contents_faults(tree: Tree, *, compiles: bool) -> list[str]:
    """Return every fault, each naming the file, the field and the reason.

    `compiles`: whether a program may still be made from a source directory when the image is built.
    """
    return [
        *_tool_faults(tree, compiles),
        *_skill_faults(tree),
        *_identity_faults(tree),
        *_dockerfile_faults(tree),
    ]


def manifests_of(tree: Tree) -> dict[str, ToolManifestFile]:
    """Return the manifests that fit, by the stem of their file."""
    found = {}
    for path in _files(tree, "tools"):
        if isinstance(manifest := _manifest(tree, path), ToolManifestFile):
            found[PurePosixPath(path).stem] = manifest
    return found


def _files(tree: Tree, folder: str) -> list[str]:
    return sorted(
        path
        for path in tree.files
        if PurePosixPath(path).parent == PurePosixPath(folder) and path.endswith(".json")
    )


def _manifest(tree: Tree, path: str) -> ToolManifestFile | str:
    """Return a manifest, or what is wrong with it."""
    if tree.files[path].size > MAX_MANIFEST_BYTES:
        return f"has more than {MAX_MANIFEST_BYTES} bytes"
    try:
        return ToolManifestFile.model_validate_json(tree.read(path))
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)[:5]
        return "; ".join(f"{'.'.join(map(str, f['loc'])) or 'file'}: {f['msg']}" for f in faults)


def _tool_faults(tree: Tree, compiles: bool) -> Iterator[str]:
    named: dict[str, str] = {}
    for path in _files(tree, "tools"):
        manifest = _manifest(tree, path)
        if isinstance(manifest, str):
            yield f"{path}: {manifest}"
            continue
        name = manifest.llm.name
        if name.startswith("choir."):
            yield f"{path}: llm.name: names in `choir.` are Choir's own"
        if name in named:
            yield f"{path}: llm.name: {named[name]} has the name {name!r} already"
        named[name] = path
        fault = _program_fault(tree, path, manifest, compiles)
        if fault:
            yield f"{path}: runtime.exec_path: {fault}"


def _program_fault(tree: Tree, path: str, manifest: ToolManifestFile, compiles: bool) -> str | None:
    stem = PurePosixPath(path).stem
    program = _program(stem, manifest.runtime.exec_path)
    if program is None:
        return "leads out of the tools"
    there = tree.files.get(program)
    if there is not None:
        return (
            None
            if there.executable
            else f"{program} is not executable (git update-index --chmod=+x)"
        )
    has_source = any(name.startswith(f"tools/{stem}/") for name in tree.files)
    if not has_source:
        return f"there is neither the program {program} nor a source directory tools/{stem}/"
    if not compiles:
        return (
            f"there is no program {program}, and the process runtime compiles nothing: commit the "
            "program, or run agents with CHOIR_RUNTIME=docker"
        )
    return None


def _program(stem: str, exec_path: str | None) -> str | None:
    """Return where in the repository a tool's program lies, none if it is elsewhere."""
    if exec_path is None:
        return f"tools/{stem}"
    given = PurePosixPath(exec_path)
    if given.is_absolute():
        if not given.is_relative_to(BAKED_IN) or len(given.relative_to(BAKED_IN).parts) < 2:
            return None
        given = PurePosixPath(*given.relative_to(BAKED_IN).parts[1:])
    return None if ".." in given.parts else f"tools/{given}"


def _skill_faults(tree: Tree) -> Iterator[str]:
    named: dict[str, str] = {}
    for path in _files(tree, "skills"):
        if tree.files[path].size > MAX_SKILL_BYTES:
            yield f"{path}: has more than {MAX_SKILL_BYTES} bytes"
            continue
        try:
            skill = json.loads(tree.read(path))
        except (ValueError, RecursionError) as error:
            yield f"{path}: not JSON ({str(error)[:100]})"
            continue
        name = skill.get("name") if isinstance(skill, dict) else None
        if not isinstance(name, str) or not isinstance(skill.get("states"), dict):
            yield f"{path}: a skill is an object with `name`, `initial_state` and `states`"
        elif name in named:
            yield f"{path}: name: {named[name]} has the name {name!r} already"
        else:
            named[name] = path


def _identity_faults(tree: Tree) -> Iterator[str]:
    for name in ("USER.md", "SOUL.md", "SOUL-CORE.md"):
        entry = tree.files.get(f"identity/{name}")
        if entry is not None and entry.size > MAX_IDENTITY_BYTES:
            yield f"{entry.path}: has more than {MAX_IDENTITY_BYTES} bytes"


def _dockerfile_faults(tree: Tree) -> Iterator[str]:
    for name in ("Dockerfile", "Dockerfile.base"):
        entry = tree.files.get(name)
        if entry is None:
            continue
        if entry.size > MAX_DOCKERFILE_BYTES:
            yield f"{name}: has more than {MAX_DOCKERFILE_BYTES} bytes"
            continue
        text = tree.read(name).decode("utf-8", "replace")
        first = next((i for i in _instructions(text) if not _ARG.match(i)), "")
        if not _FROM.match(first):
            yield f"{name}: must begin with FROM"


def _instructions(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line
