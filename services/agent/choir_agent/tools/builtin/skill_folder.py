"""`choir.skill.read` and `choir.skill.run`: the instructions, files and scripts of approved skill folders.

An agent without skill folders does not have these tools. Scripts run like `choir.exec`, but without network.
"""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from choir_agent.log.session_state import SessionStateSource
from choir_agent.provenance.data_flow import DataFlow
from choir_agent.skills.skill_folders import READ_TOOL, RUN_TOOL, SkillFolders, allowed_tools
from choir_agent.skills.skill_spec import START_TOOL
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.program_runner import PATH, Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput, ToolRefused
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.skill_folders.folder import SCRIPTS, SkillFolder, SkillFolderFile
from choir_common.wire.model import JsonObject

MAX_TEXT = 60_000
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
CAPTURE_BYTES_EACH_END = 100_000
INTERPRETERS: Mapping[str, tuple[str, ...]] = {
    ".py": ("python3",),
    ".sh": ("bash", "sh"),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".pl": ("perl",),
    ".rb": ("ruby",),
}

READ_MANIFEST = ToolManifest(
    LlmView(
        name=READ_TOOL,
        description=(
            "Read a skill folder: without `path` its instructions and the list of its files; with `path` "
            "one of these files."
        ),
        parameters={
            "type": "object",
            "properties": {
                "skill": {"type": "string", "maxLength": 64},
                "path": {"type": "string", "maxLength": 700},
                "offset": {"type": "integer", "minimum": 0},
            },
            "required": ["skill"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        # Strangers wrote it; an approval says that it was read, not that it became the owner's word.
        flow=DataFlow(outside=True),
        timeout_ms=15_000,
        side_effect="none",
        idempotent=True,
        max_output=2 * MAX_TEXT,
    ),
)
RUN_MANIFEST = ToolManifest(
    LlmView(
        name=RUN_TOOL,
        description=(
            "Run a script of a skill folder in the workspace, without network; return its output. "
            "`script`: its path, such as scripts/convert.py."
        ),
        parameters={
            "type": "object",
            "properties": {
                "skill": {"type": "string", "maxLength": 64},
                "script": {"type": "string", "maxLength": 700},
                "arguments": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 4_000},
                    "maxItems": 50,
                },
                "stdin": {"type": "string", "maxLength": 100_000},
                "timeout_ms": {"type": "integer", "minimum": 100, "maximum": MAX_TIMEOUT_MS},
            },
            "required": ["skill", "script"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(outside=True, private=True, reads_workspace=True, writes="files"),
        timeout_ms=MAX_TIMEOUT_MS + 10_000,
        side_effect="external",
        idempotent=False,
        locks=(LockTemplate("workspace", "X"),),
        max_output=MAX_TEXT,
        network=False,
    ),
)


class SkillFolderAccess:
    """Finds the folder of a call, and refuses what its approval or its `allowed-tools` do not permit."""

    def __init__(self, folders: SkillFolders, session: SessionStateSource) -> None:
        self.folders = folders
        self._session = session

    async def find(self, context: CallContext, name: str) -> SkillFolder:
        """Return the folder with its present files; raises ToolRefused."""
        pins = context.settings.skills if context.settings is not None else {}
        folder = await asyncio.to_thread(self.folders.read, name, pins)
        if folder is None:
            available: JsonObject = {"available": [n for n, _ in self.folders.summaries(pins)]}
            raise ToolRefused(
                "not_approved",
                f"There is no approved skill folder {name!r}, or its files have changed since the "
                "approval; the user can approve them with `choirctl skill approve`.",
                available,
            )
        active = self._session.state.skill_of(context.lane)
        if allowed_tools(folder.front) is not None and (active is None or active.skill != name):
            raise ToolRefused(
                "start_first",
                f"This skill limits its tools. Begin it with {model_name(START_TOOL)}, skill {name!r}.",
            )
        return folder


class SkillReadTool:
    """Reads instructions and files."""

    manifest = READ_MANIFEST

    def __init__(self, access: SkillFolderAccess) -> None:
        self._access = access

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Return a text; raises ToolRefused, or ToolFailed for an unknown or binary file."""
        folder = await self._access.find(context, str(arguments["skill"]))
        path = arguments.get("path")
        if path is None:
            text = folder.body
        else:
            content = _find(folder, str(path)).text()
            if content is None:
                raise ToolFailed("binary", f"{path!r} is binary; a script of the skill can use it.")
            text = content
        offset = arguments.get("offset", 0)
        begin = offset if isinstance(offset, int) else 0
        output: JsonObject = {"text": text[begin : begin + MAX_TEXT]}
        if len(text) > begin + MAX_TEXT:
            output["next_offset"] = begin + MAX_TEXT
        if path is None:
            output["files"] = [file.path for file in folder.files]
            output["compatibility"] = folder.front.compatibility
        return ToolOutput(output, f"{folder.name}: {len(text)} characters")


class SkillRunTool:
    """Runs scripts."""

    manifest = RUN_MANIFEST

    def __init__(self, access: SkillFolderAccess, children: ProgramRunner) -> None:
        self._access = access
        self._children = children

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run a script to its end; raises ToolRefused, or ToolFailed if it cannot start or end in time."""
        folder = await self._access.find(context, str(arguments["skill"]))
        tools = allowed_tools(folder.front)
        if tools is not None and RUN_TOOL not in tools:
            raise ToolRefused("not_allowed", "The skill's allowed-tools contain no program.")
        script = _find(folder, str(arguments["script"]))
        place = self._access.folders.directory(folder.name) / script.path
        words = arguments.get("arguments", [])
        argv = [*_command(script, place), *(map(str, words) if isinstance(words, list) else ())]
        if any("\0" in word for word in argv):
            raise ToolFailed("bad_input", "An argument cannot contain a NUL character.")
        timeout = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_s = float(timeout) / 1000 if isinstance(timeout, int | float) else 0.0
        program = Program(
            context.call_id,
            argv,
            timeout_s,
            stdin=str(arguments.get("stdin", "")).encode(),
            offline=True,
            tool=RUN_TOOL,
            environment={
                "SKILL_DIR": str(self._access.folders.directory(folder.name)),
                # A cache beside the script would change the folder's hash.
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
        out, err = OutputCapture(CAPTURE_BYTES_EACH_END), OutputCapture(CAPTURE_BYTES_EACH_END)
        try:
            exit_code = await self._children.run(program, out, err)
        except (OSError, ValueError) as error:
            raise ToolFailed("cannot_start", f"The script cannot be started: {error}.") from error
        output: JsonObject = {"exit_code": exit_code, "stdout": out.text(), "stderr": err.text()}
        if exit_code is None:
            raise ToolFailed("timeout", f"Killed after {timeout_s:g} s.", output)
        return ToolOutput(output, f"exit code {exit_code}, {out.size} bytes of output")


def _find(folder: SkillFolder, path: str) -> SkillFolderFile:
    # Only names of the list: no path of the model's reaches the file system.
    file = folder.find(path.removeprefix("./"))
    if file is None:
        files: JsonObject = {"files": [file.path for file in folder.files]}
        raise ToolFailed(
            "not_found", f"The skill {folder.name!r} has no file {path[:200]!r}.", files
        )
    return file


def _command(script: SkillFolderFile, place: Path) -> list[str]:
    """Return how a script is started; raises ToolFailed for a file that is none."""
    if not script.path.startswith(SCRIPTS):
        raise ToolFailed("not_a_script", f"{script.path!r} is not in {SCRIPTS}.")
    names = INTERPRETERS.get(PurePosixPath(script.path).suffix.lower())
    if names is None:
        if not script.executable:
            raise ToolFailed("not_a_script", f"{script.path!r} is not executable (chmod +x).")
        return [str(place)]
    for name in names:
        interpreter = shutil.which(name, path=PATH)
        if interpreter is not None:
            return [interpreter, str(place)]
    raise ToolFailed(
        "cannot_start", f"This system has no {' or '.join(names)} for {script.path!r}."
    )
