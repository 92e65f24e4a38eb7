"""Loader of external tools: pairs of a manifest and an executable in /choir/tools.

An invalid tool stops the startup: an agent never runs with half of its tools. `find_external_tools` reports
every fault; control asks it before it restarts an agent, and `choirctl tool check` before that.
"""

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.external_tool import TIMEOUT_MARGIN_MS, ExternalTool
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.program_runner import ProgramRunner
from choir_common.confinement import seccomp
from choir_common.confinement.kernel import Kernel
from choir_common.errors import StartupError
from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT, TOOL_OUTPUT
from choir_common.json_schema import find_schema_fault
from choir_common.wire.repository_files import RuntimeSection, ToolManifestFile
from choir_common.wire.validation_messages import error_message, error_path

TOOL_DIRS = ("global", "agent")
"""Directories below /choir/tools; the agent's own tool overrides a global one of the same name."""
IMAGE_TOOLS = PurePosixPath("/choir/tools")
MAX_MANIFEST_BYTES = 256_000
MAX_TOOLS = 200
MAX_REPORTED_FAULTS = 5
RESERVED_PREFIXES = ("choir.", "mcp.", "harness.")
"""Of Choir's own tools, MCP servers and harnesses; reserved with underscores, too, as models see them."""
NAME, PARAMETERS = ("llm", "name"), ("llm", "parameters")
EXEC_PATH = ("runtime", "exec_path")


@dataclass(frozen=True, slots=True)
class ToolSource:
    """A directory with manifests; in the image it is `image_path`."""

    path: Path
    top: Path
    """No program may be outside of it, links resolved."""
    image_path: PurePosixPath


@dataclass(frozen=True, slots=True)
class ToolRefusal:
    """Why the agent does not start with a file."""

    file: Path
    reason: str
    place: tuple[str | int, ...] = ()
    """Path of the value in the file's JSON; empty for the file itself."""

    def __str__(self) -> str:
        where = ".".join(map(str, self.place))
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(slots=True)
class ToolScan:
    """The valid tools by name, the manifests they come from, and the faults of the others."""

    tools: dict[str, ExternalTool] = field(default_factory=dict)
    manifests: dict[str, tuple[Path, ToolManifestFile]] = field(default_factory=dict)
    faults: list[ToolRefusal] = field(default_factory=list)


class _InvalidTool(Exception):
    """An invalid tool, with its faults."""

    def __init__(self, *faults: ToolRefusal) -> None:
        super().__init__()
        self.faults = faults


def load_external_tools(
    choir_dir: Path, reserved_names: Collection[str], children: ProgramRunner
) -> list[ExternalTool]:
    """Return the tools of /choir/tools, sorted by name. Blocks: call it at startup only.

    Raises StartupError with the file, the field and the reason if a tool is invalid.
    """
    scan = find_external_tools(image_directories(choir_dir), reserved_names, children)
    if scan.faults:
        first = scan.faults[0].file
        reasons = [str(fault) for fault in scan.faults if fault.file == first]
        raise StartupError(f"Invalid tool {first}: {'; '.join(reasons[:MAX_REPORTED_FAULTS])}.")
    return [scan.tools[name] for name in sorted(scan.tools)]


def image_directories(choir_dir: Path) -> tuple[ToolSource, ...]:
    """Return the directories of an image, in the order in which they are read."""
    top = choir_dir / "tools"
    return tuple(ToolSource(top / name, top, IMAGE_TOOLS / name) for name in TOOL_DIRS)


def find_external_tools(
    directories: Sequence[ToolSource], reserved_names: Collection[str], children: ProgramRunner
) -> ToolScan:
    """Return the valid tools of all directories, and every fault. Blocks."""
    scan = ToolScan()
    for directory in directories:
        _read_directory(directory, children, scan)
    if len(scan.tools) > MAX_TOOLS:
        reason = f"contains {len(scan.tools)} tools; the limit is {MAX_TOOLS}"
        scan.faults.append(ToolRefusal(directories[0].top, reason))
    _check_names(scan, reserved_names)
    _check_offline_support(scan)
    return scan


def _read_directory(directory: ToolSource, children: ProgramRunner, scan: ToolScan) -> None:
    own: dict[str, Path] = {}
    try:
        files = sorted(path for path in directory.path.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return
    except OSError as error:
        scan.faults.append(ToolRefusal(directory.path, f"cannot be read: {error.strerror}"))
        return
    for path in files:
        try:
            read = _read_manifest(path)
            name = read.llm.name
            if name in own:
                reason = f"{own[name].name} and {path.name} have the name {name!r}"
                raise _InvalidTool(ToolRefusal(path, reason, NAME))
            own[name] = path
            scan.tools[name] = _make_tool(path, directory, read, children)
            scan.manifests[name] = (path, read)
        except _InvalidTool as error:
            scan.faults += error.faults
        except OSError as error:
            scan.faults.append(ToolRefusal(path, f"cannot be read: {error.strerror}"))


def _read_manifest(path: Path) -> ToolManifestFile:
    """Return a valid manifest; raises _InvalidTool and OSError."""
    text = path.read_bytes()
    if len(text) > MAX_MANIFEST_BYTES:
        raise _InvalidTool(ToolRefusal(path, f"file: larger than {MAX_MANIFEST_BYTES} bytes"))
    try:
        read = ToolManifestFile.model_validate_json(text)
    except ValidationError as error:
        raise _InvalidTool(*_faults(path, error)) from error
    seen = model_name(read.llm.name)
    for prefix in RESERVED_PREFIXES:
        if seen.startswith(model_name(prefix)):
            raise _InvalidTool(ToolRefusal(path, f"the prefix `{prefix}` is reserved", NAME))
    if read.llm.parameters.get("type") != "object":
        raise _InvalidTool(ToolRefusal(path, "must be a schema of type object", PARAMETERS))
    if fault := find_schema_fault(read.llm.parameters):
        raise _InvalidTool(ToolRefusal(path, fault, PARAMETERS))
    return read


def _faults(path: Path, error: ValidationError) -> list[ToolRefusal]:
    return [
        ToolRefusal(path, error_message(fault), fault["loc"])
        if fault["loc"]
        else ToolRefusal(path, f"{error_path(fault, 'file')}: {error_message(fault)}")
        for fault in error.errors(include_input=False, include_url=False)
    ]


def _make_tool(
    path: Path, directory: ToolSource, read: ToolManifestFile, children: ProgramRunner
) -> ExternalTool:
    executable = _executable(path, directory, read.runtime.exec_path)
    digest = hashlib.sha256(executable.read_bytes()).hexdigest()
    return ExternalTool(
        _manifest(read, digest), executable=executable, digest=digest, children=children
    )


def _executable(manifest: Path, directory: ToolSource, exec_path: str | None) -> Path:
    """Return the executable's real path, which must be inside the tools' directory after resolving links."""
    if exec_path is None:
        path = manifest.with_suffix("")
    elif PurePosixPath(exec_path).is_relative_to(directory.image_path):
        path = directory.path / PurePosixPath(exec_path).relative_to(directory.image_path)
    elif PurePosixPath(exec_path).is_relative_to(IMAGE_TOOLS):
        path = directory.top / PurePosixPath(exec_path).relative_to(IMAGE_TOOLS)
    else:
        path = manifest.parent / exec_path
    # A symlink must not lead to a program outside the image.
    real = path.resolve()
    if not real.is_relative_to(directory.top.resolve()):
        raise _InvalidTool(ToolRefusal(manifest, f"{path} is outside {directory.top}", EXEC_PATH))
    if not real.is_file():
        raise _InvalidTool(ToolRefusal(manifest, f"the file {path} does not exist", EXEC_PATH))
    if not os.access(real, os.X_OK):
        reason = f"{path} is not executable (chmod +x)"
        raise _InvalidTool(ToolRefusal(manifest, reason, EXEC_PATH))
    return real


def _manifest(read: ToolManifestFile, digest: str) -> ToolManifest:
    runtime = read.runtime
    return ToolManifest(
        LlmView(read.llm.name, read.llm.description, read.llm.parameters),
        RuntimeView(
            timeout_ms=runtime.timeout_ms + TIMEOUT_MARGIN_MS,
            side_effect=runtime.side_effect,
            idempotent=runtime.idempotent,
            source=OUTSIDE_OUTPUT if runtime.origin == "web" else TOOL_OUTPUT,
            flow=_data_flow(runtime),
            locks=tuple(LockTemplate(lock.resource, lock.mode) for lock in runtime.locks),
            needs_approval=runtime.needs_approval,
            lanes=runtime.lanes,
            exposure=runtime.exposure,
            prompt_mask=runtime.prompt_mask,
            secret_resources=runtime.secret_resources,
            network=runtime.network,
            hosts=runtime.hosts,
            version=runtime.version,
            executable_hash=digest,
        ),
    )


def _data_flow(runtime: RuntimeSection) -> DataFlow:
    """Return what the manifest declares; whatever it does not declare, the tool may do."""
    outside = runtime.outside if runtime.outside is not None else runtime.network
    # Without network the kernel keeps it from sending, whatever the manifest says.
    sends = runtime.network and runtime.sends is not False
    return DataFlow(
        outside=outside or runtime.origin == "web",
        private=runtime.private,
        sends="network" if sends else "nothing",
        reads_workspace=runtime.private,
        writes="files",
    )


def _check_names(scan: ToolScan, reserved_names: Collection[str]) -> None:
    # Different names may have the same model name: `a.b_c` and `a.b.c` are both `a_b_c`.
    names_by_model_name = {model_name(name): name for name in reserved_names}
    for name, (file, _) in scan.manifests.items():
        other = names_by_model_name.setdefault(model_name(name), name)
        if other != name:
            reason = (
                f"{name!r} and {other!r} have the same model name {model_name(name)}. Rename one"
            )
            scan.faults.append(ToolRefusal(file, reason, NAME))


def _check_offline_support(scan: ToolScan) -> None:
    """Check once that this kernel can keep a program offline; otherwise each call would fail."""
    offline = [name for name, tool in scan.tools.items() if not tool.manifest.runtime.network]
    if not offline or seccomp.is_supported(Kernel()):
        return
    reason = (
        f"the tools {', '.join(offline)} have `network: false`, but this system cannot block network "
        "access. Run the agent on Linux with seccomp (x86_64 or aarch64), or set "
        "`network: true` in the manifests"
    )
    scan.faults.append(ToolRefusal(scan.manifests[offline[0]][0], reason, ("runtime", "network")))
