"""Check of external tools: what the agent's loader accepts and refuses, with places in files. Blocks.

A folder is also checked for what no build accepts, such as links. Declarations without effect are warnings.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from choir_agent.tools.external_loader import (
    IMAGE_TOOLS,
    ToolRefusal,
    ToolScan,
    ToolSource,
    find_external_tools,
    image_directories,
)
from choir_agent.tools.program_runner import ProgramRunner
from choir_common.json_places import line_of
from choir_common.plain_paths import find_path_fault
from choir_common.wire.local_tools import (
    LoadableTool,
    ToolCheckReport,
    ToolCheckRequest,
    ToolFinding,
)
from choir_common.wire.repository_files import RuntimeSection

WRITABLE_BY_ALL = 0o002


def check_tools(request: ToolCheckRequest) -> ToolCheckReport:
    """Return the tools of a directory, and every fault in it."""
    top = Path(request.directory)
    if request.image:
        directories, faults = image_directories(top), []
    else:
        # A folder's tools are the agent's own ones in the image.
        directories = (ToolSource(top, top, IMAGE_TOOLS / "agent"),)
        faults = [*_folder_faults(top)]
    scan = find_external_tools(directories, (), ProgramRunner(top, os.devnull))
    faults += [_describe(fault, top) for fault in scan.faults]
    faults += [*_warnings(scan, top)]
    tools = tuple(_loadable(scan, name, top) for name in sorted(scan.tools))
    return ToolCheckReport(tools=tools, faults=tuple(sorted(faults, key=_place)))


def _place(fault: ToolFinding) -> tuple[str, int]:
    return fault.file, fault.line or 0


def _folder_faults(top: Path) -> Iterator[ToolFinding]:
    """Yield what no build of an image accepts, and files that others can change."""
    for directory, names, files in os.walk(top):
        for name in sorted((*names, *files)):
            path = Path(directory, name)
            fault = _file_fault(path, path.relative_to(top).as_posix())
            if fault is not None:
                yield fault


def _file_fault(path: Path, relative: str) -> ToolFinding | None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        target = path.readlink()
        return ToolFinding(
            file=relative,
            message=f"is a symbolic link to {target}; only plain files are allowed",
            advice="Copy the file to this place.",
        )
    if fault := find_path_fault(relative):
        return ToolFinding(file=relative, message=fault, advice="Rename or remove it.")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return ToolFinding(file=relative, message="is no plain file", advice="Remove it.")
    if mode & WRITABLE_BY_ALL:
        return ToolFinding(
            file=relative,
            level="warning",
            message="can be changed by every user of this machine",
            advice=f"Run `chmod o-w {path}`.",
        )
    return None


def _describe(fault: ToolRefusal, top: Path) -> ToolFinding:
    return ToolFinding(
        file=_relative(fault.file, top),
        line=_line(fault.file, fault.place),
        message=str(fault),
        tool=fault.file.stem,
    )


def _relative(path: Path, top: Path) -> str:
    relative = path.relative_to(top).as_posix()
    return "" if relative == "." else relative


def _line(file: Path, place: tuple[str | int, ...]) -> int | None:
    """Return the line of a value, or where the text ceases to be JSON; None for other files."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):
        return None
    return line_of(text, place)


def _warnings(scan: ToolScan, top: Path) -> Iterator[ToolFinding]:
    for name, (file, read) in scan.manifests.items():
        for field, message in _contradictions(read.runtime):
            yield ToolFinding(
                file=_relative(file, top),
                line=_line(file, ("runtime", field)),
                level="warning",
                message=f"runtime.{field}: {message}",
                tool=name,
            )


def _contradictions(runtime: RuntimeSection) -> Iterator[tuple[str, str]]:
    """Yield the fields that have no effect, because others decide."""
    if runtime.hosts and not runtime.network:
        yield "hosts", "has no effect without `network: true`"
    if runtime.sends and not runtime.network:
        yield "sends", "has no effect without `network: true`"
    if runtime.outside is False and runtime.origin == "web":
        yield "outside", "has no effect, because `origin` is `web`"
    if runtime.network and runtime.side_effect in ("none", "write"):
        yield "side_effect", "a tool with network usually has `read` or `external`"


def _loadable(scan: ToolScan, name: str, top: Path) -> LoadableTool:
    tool, (file, read) = scan.tools[name], scan.manifests[name]
    return LoadableTool(
        name=name,
        description=read.llm.description,
        file=_relative(file, top),
        program=_relative(tool.executable, top.resolve()),
        side_effect=read.runtime.side_effect,
        network=read.runtime.network,
        hosts=read.runtime.hosts,
        secret_resources=read.runtime.secret_resources,
        timeout_ms=read.runtime.timeout_ms,
    )
