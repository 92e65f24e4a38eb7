"""Loader of external tools: pairs of a manifest and an executable in /choir/tools.

An invalid tool stops the startup: an agent never runs with half of its tools.
"""

import hashlib
import os
from collections.abc import Collection
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
from choir_common.wire.validation_messages import error_messages

TOOL_DIRS = ("global", "agent")
"""Directories below /choir/tools; the agent's own tool overrides a global one of the same name."""
IMAGE_ROOT = PurePosixPath("/choir")
MAX_MANIFEST_BYTES = 256_000
MAX_TOOLS = 200
RESERVED_PREFIXES = ("choir.", "mcp.", "harness.")


class _InvalidManifest(Exception):
    """An invalid tool manifest; the text names the field and the reason."""


def load_external_tools(
    choir_dir: Path, reserved_names: Collection[str], children: ProgramRunner
) -> list[ExternalTool]:
    """Return the tools of /choir/tools, sorted by name. Blocks: call it at startup only.

    Raises StartupError with the file, the field and the reason if a tool is invalid.
    """
    top = choir_dir / "tools"
    tools: dict[str, ExternalTool] = {}
    for directory in TOOL_DIRS:
        tools |= _load_place(top, directory, children)
    if len(tools) > MAX_TOOLS:
        raise StartupError(f"{top} contains {len(tools)} tools; the limit is {MAX_TOOLS}.")
    _check_names(tools, reserved_names, top)
    # Test once at startup; otherwise each call would fail.
    offline = [name for name, tool in tools.items() if not tool.manifest.runtime.network]
    if offline:
        _check_offline_support(offline)
    return [tools[name] for name in sorted(tools)]


def _load_place(top: Path, directory: str, children: ProgramRunner) -> dict[str, ExternalTool]:
    loaded: dict[str, ExternalTool] = {}
    try:
        files = sorted(path for path in (top / directory).iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StartupError(
            f"Cannot read the tools in {top / directory}: {error.strerror}."
        ) from error
    for path in files:
        try:
            tool = _load(path, top, children)
        except _InvalidManifest as error:
            raise StartupError(f"Invalid tool manifest {path}: {error}.") from error
        except OSError as error:
            raise StartupError(f"Cannot read the tool of {path}: {error.strerror}.") from error
        name = tool.manifest.name
        if name in loaded:
            raise StartupError(
                f"Two tools in {top / directory} have the name {name!r}; see {path}."
            )
        loaded[name] = tool
    return loaded


def _load(path: Path, top: Path, children: ProgramRunner) -> ExternalTool:
    text = path.read_bytes()
    if len(text) > MAX_MANIFEST_BYTES:
        raise _InvalidManifest(f"file: larger than {MAX_MANIFEST_BYTES} bytes")
    try:
        read = ToolManifestFile.model_validate_json(text)
    except ValidationError as error:
        raise _InvalidManifest(_faults(error)) from error
    for prefix in RESERVED_PREFIXES:
        if read.llm.name.startswith(prefix):
            raise _InvalidManifest(f"llm.name: the prefix `{prefix}` is reserved")
    if read.llm.parameters.get("type") != "object":
        raise _InvalidManifest("llm.parameters: must be a schema of type object")
    fault = find_schema_fault(read.llm.parameters)
    if fault:
        raise _InvalidManifest(f"llm.parameters: {fault}")
    executable = _executable(path, top, read.runtime.exec_path)
    digest = hashlib.sha256(executable.read_bytes()).hexdigest()
    return ExternalTool(
        _manifest(read, digest), executable=executable, digest=digest, children=children
    )


def _faults(error: ValidationError) -> str:
    return "; ".join(error_messages(error, "file")[:5])


def _executable(manifest: Path, top: Path, exec_path: str | None) -> Path:
    """Return the executable's real path, which must be inside the tools' directory after resolving links."""
    if exec_path is None:
        path = manifest.with_suffix("")
    elif PurePosixPath(exec_path).is_relative_to(IMAGE_ROOT):
        path = top.parent / PurePosixPath(exec_path).relative_to(IMAGE_ROOT)
    else:
        path = manifest.parent / exec_path
    # A symlink must not lead to a program outside the image.
    real = path.resolve()
    if not real.is_relative_to(top.resolve()):
        raise _InvalidManifest(f"runtime.exec_path: {path} is outside {top}")
    if not real.is_file():
        raise _InvalidManifest(f"runtime.exec_path: the file {path} does not exist")
    if not os.access(real, os.X_OK):
        raise _InvalidManifest(f"runtime.exec_path: {path} is not executable (chmod +x)")
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


def _check_names(names: Collection[str], reserved_names: Collection[str], top: Path) -> None:
    # Different names may have the same model name: `a.b_c` and `a.b.c` are both `a_b_c`.
    names_by_model_name = {model_name(name): name for name in reserved_names}
    for name in names:
        other = names_by_model_name.setdefault(model_name(name), name)
        if other != name:
            raise StartupError(
                f"The tools {name!r} in {top} and {other!r} have the same model name "
                f"{model_name(name)}. Rename one."
            )


def _check_offline_support(names: list[str]) -> None:
    """Check that this kernel can keep a program offline; raises StartupError if it cannot."""
    if seccomp.is_supported(Kernel()):
        return
    raise StartupError(
        f"The tools {', '.join(names)} have `network: false`, but this system cannot block network "
        "access. Run the agent on Linux with seccomp (x86_64 or aarch64), or set "
        "`network: true` in the manifests."
    )
