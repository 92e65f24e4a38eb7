"""Checks of a repository's tools, skills, identity and Dockerfile before anything is built.

Functions block: they read the files of an extracted tree.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TypeVar

from pydantic import ValidationError

from choir_common.json_schema import find_schema_fault
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.repository_files import SkillFile, ToolManifestFile
from choir_common.wire.validation_messages import error_messages
from choir_control.images.repositories.dockerfile_checks import find_dockerfile_fault
from choir_control.images.repositories.skill_folders import skill_folder_faults
from choir_control.images.repositories.tree import RepositoryTree

MAX_MANIFEST_BYTES = 256_000
MAX_SKILL_BYTES = 1_000_000
MAX_IDENTITY_BYTES = 200_000
MAX_DOCKERFILE_BYTES = 100_000
IMAGE_TOOLS_DIR = PurePosixPath("/choir/tools")
MAX_FAULTS_PER_FILE = 5
W = TypeVar("W", bound=WireModel)


def find_content_faults(tree: RepositoryTree, *, can_compile: bool) -> list[str]:
    """Return every fault, each with the file, the field and the reason.

    `can_compile`: whether the image build can still compile a program from its source directory.
    """
    return [
        *_tool_faults(tree, can_compile),
        *_skill_faults(tree),
        *skill_folder_faults(tree),
        *_identity_faults(tree),
        *_dockerfile_faults(tree),
    ]


def read_manifests(tree: RepositoryTree) -> dict[str, ToolManifestFile]:
    """Return the valid manifests, by the stem of their file name."""
    manifests = {}
    for path in _files(tree, "tools"):
        if isinstance(manifest := _manifest(tree, path), ToolManifestFile):
            manifests[PurePosixPath(path).stem] = manifest
    return manifests


def _files(tree: RepositoryTree, folder: str) -> list[str]:
    return sorted(
        path
        for path in tree.files
        if PurePosixPath(path).parent == PurePosixPath(folder) and path.endswith(".json")
    )


def _manifest(tree: RepositoryTree, path: str) -> ToolManifestFile | str:
    """Return a manifest, or a description of its faults."""
    return _parse(tree, path, ToolManifestFile, MAX_MANIFEST_BYTES)


def _parse(tree: RepositoryTree, path: str, shape: type[W], most: int) -> W | str:
    """Parse a file; return the model, or a description of its faults."""
    if tree.files[path].size > most:
        return f"has more than {most} bytes"
    try:
        return shape.model_validate_json(tree.read(path))
    except ValidationError as error:
        return "; ".join(error_messages(error, "file")[:MAX_FAULTS_PER_FILE])


def _schema_faults(path: str, **schemas: JsonObject | None) -> Iterator[str]:
    """Yield the faults of the JSON Schemas in a file, by their place in it."""
    for field, schema in schemas.items():
        fault = None if schema is None else find_schema_fault(schema)
        if fault is not None:
            yield f"{path}: {field.replace('__', '.')}: not a JSON Schema: {fault}"


def _tool_faults(tree: RepositoryTree, compiles: bool) -> Iterator[str]:
    tool_paths: dict[str, str] = {}
    for path in _files(tree, "tools"):
        manifest = _manifest(tree, path)
        if isinstance(manifest, str):
            yield f"{path}: {manifest}"
            continue
        name = manifest.llm.name
        if name.startswith("choir."):
            yield f"{path}: llm.name: the prefix `choir.` is reserved"
        if name in tool_paths:
            yield f"{path}: llm.name: {tool_paths[name]} already has the name {name!r}"
        tool_paths[name] = path
        yield from _schema_faults(path, llm__parameters=manifest.llm.parameters)
        fault = _program_fault(tree, path, manifest, compiles)
        if fault:
            yield f"{path}: runtime.exec_path: {fault}"


def _program_fault(
    tree: RepositoryTree, path: str, manifest: ToolManifestFile, compiles: bool
) -> str | None:
    stem = PurePosixPath(path).stem
    program = _program(stem, manifest.runtime.exec_path)
    if program is None:
        return "is outside the tools directory"
    entry = tree.files.get(program)
    if entry is not None:
        return (
            None
            if entry.executable
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
    """Return the path of a tool's program in the repository, or None if it is outside of `tools`."""
    if exec_path is None:
        return f"tools/{stem}"
    path = PurePosixPath(exec_path)
    if path.is_absolute():
        if (
            not path.is_relative_to(IMAGE_TOOLS_DIR)
            or len(path.relative_to(IMAGE_TOOLS_DIR).parts) < 2
        ):
            return None
        # without the first part, which is `global` or `agent` in the image
        path = PurePosixPath(*path.relative_to(IMAGE_TOOLS_DIR).parts[1:])
    return None if ".." in path.parts else f"tools/{path}"


def _skill_faults(tree: RepositoryTree) -> Iterator[str]:
    skill_paths: dict[str, str] = {}
    for path in _files(tree, "skills"):
        skill = _parse(tree, path, SkillFile, MAX_SKILL_BYTES)
        if isinstance(skill, str):
            yield f"{path}: {skill}"
            continue
        yield from _schema_faults(
            path, input_schema=skill.input_schema, output_schema=skill.output_schema
        )
        if skill.name in skill_paths:
            yield f"{path}: name: {skill_paths[skill.name]} already has the name {skill.name!r}"
        skill_paths[skill.name] = path


def _identity_faults(tree: RepositoryTree) -> Iterator[str]:
    for name in ("USER.md", "SOUL.md", "SOUL-CORE.md"):
        entry = tree.files.get(f"identity/{name}")
        if entry is not None and entry.size > MAX_IDENTITY_BYTES:
            yield f"{entry.path}: has more than {MAX_IDENTITY_BYTES} bytes"


def _dockerfile_faults(tree: RepositoryTree) -> Iterator[str]:
    for name in ("Dockerfile", "Dockerfile.base"):
        entry = tree.files.get(name)
        if entry is None:
            continue
        if entry.size > MAX_DOCKERFILE_BYTES:
            yield f"{name}: has more than {MAX_DOCKERFILE_BYTES} bytes"
            continue
        fault = find_dockerfile_fault(tree.read(name).decode("utf-8", "replace"))
        if fault is not None:
            yield f"{name}: {fault}"
