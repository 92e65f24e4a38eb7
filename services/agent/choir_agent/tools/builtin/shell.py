"""`choir.exec`: run a shell command in the workspace.

Runs under lock `workspace` X, after the commitment is durable.
"""

import shutil

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.program_runner import PATH, Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
CAPTURE_BYTES_EACH_END = 500_000
"""Bytes captured of each stream's beginning and end; the result contains less, an artifact all of it."""
MAX_OUTPUT = 60_000

OFFLINE_NOTE = (
    "The command ran without network, because this conversation holds text from outside. If it needs a "
    "connection, call again with network: true; a person must agree."
)
FULL_NOTE = "Until files are deleted, commands can write no bytes to files."

MANIFEST = ToolManifest(
    LlmView(
        name="choir.exec",
        description=(
            "Run a shell command in the workspace; return its output. Stdin is closed, "
            "and no process outlives it. Long output is cut; artifact_ref then names a file with "
            "more. `network` false: it needs none."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "maxLength": 50_000},
                "network": {"type": "boolean"},
                "timeout_ms": {"type": "integer", "minimum": 100, "maximum": MAX_TIMEOUT_MS},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(
            outside=True,
            private=True,
            sends="network",
            reads_workspace=True,
            writes="files",
            can_be_offline=True,
        ),
        # Longer than the longest timeout that a call may request, which ends the command in an
        # orderly way.
        timeout_ms=MAX_TIMEOUT_MS + 10_000,
        side_effect="external",
        idempotent=False,
        locks=(LockTemplate("workspace", "X"),),
        max_output=MAX_OUTPUT,
    ),
)


class ShellTool:
    """Runs commands with a clean environment: no token, no secret, nothing from the agent's own."""

    manifest = MANIFEST

    def __init__(self, children: ProgramRunner) -> None:
        self._children = children
        self._shell = shutil.which("bash", path=PATH) or "/bin/sh"

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run the command; raises ToolFailed if it cannot start or does not end in time."""
        timeout = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_s = float(timeout) / 1000 if isinstance(timeout, int | float) else 0.0
        command = str(arguments["command"])
        if "\x00" in command:
            raise ToolFailed("bad_input", "A command cannot contain a NUL character.")
        argv = [self._shell, "-c", command]
        program = Program(
            context.call_id,
            argv,
            timeout_s,
            with_git=True,
            offline=context.offline,
            tool=MANIFEST.name,
            hosts=context.hosts,
        )
        stdout, stderr = (
            OutputCapture(CAPTURE_BYTES_EACH_END),
            OutputCapture(CAPTURE_BYTES_EACH_END),
        )
        try:
            exit_code = await self._children.run(program, stdout, stderr)
        except (OSError, ValueError) as error:
            raise ToolFailed("cannot_start", f"The shell cannot be started: {error}.") from error
        output: JsonObject = {
            "exit_code": exit_code,
            "stdout": stdout.text(),
            "stderr": stderr.text(),
        }
        if context.offline and exit_code and "network" not in arguments:
            output["note"] = OFFLINE_NOTE
        if excess := await self._children.find_excess():
            output["note"] = f"{excess} {FULL_NOTE}"
        if exit_code is None:
            raise ToolFailed("timeout", f"Killed after {timeout_s:g} s.", output)
        return ToolOutput(output, f"exit code {exit_code}, {stdout.size} bytes of output")
