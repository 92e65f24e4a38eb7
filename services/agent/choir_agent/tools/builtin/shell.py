"""`choir.exec`: run a shell command in the workspace (spec 8.7, 9.5).

Called by the arbiter under `workspace` X, after the commitment is durable.
"""

import shutil

from choir_agent.tools.child import Children
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_common.wire.json import JsonObject

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

MANIFEST = ToolManifest(
    LlmView(
        name="choir.exec",
        description=(
            "Run a shell command in the workspace directory and return its exit code and output. "
            "Standard input is closed. Everything it started ends with the command, so start no "
            "background processes. Long output is cut in the middle."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "maxLength": 50_000},
                "timeout_ms": {"type": "integer", "minimum": 100, "maximum": MAX_TIMEOUT_MS},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        # above the longest timeout a call may ask for, which ends the command in good order
        timeout_ms=MAX_TIMEOUT_MS + 10_000,
        side_effect="external",
        idempotent=False,
        locks=(LockTemplate("workspace", "X"),),
    ),
)


class Shell:
    """Runs commands with a clean environment: no token, no secret, nothing of ours."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace, tmp_dir: str) -> None:
        self._workspace = workspace
        self._tmp_dir = tmp_dir
        self._children = Children()
        self._shell = shutil.which("bash", path=PATH) or "/bin/sh"

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run; raises ToolFailed when the command cannot start or does not end in time."""
        timeout = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_s = float(timeout) / 1000 if isinstance(timeout, int | float) else 0.0
        command = str(arguments["command"])
        if "\x00" in command:
            raise ToolFailed("bad_input", "A command cannot hold a NUL character.")
        environment = {
            "PATH": PATH,
            "HOME": str(self._workspace.root),
            "PWD": str(self._workspace.root),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": self._tmp_dir,
            "CHOIR_CALL_ID": context.call_id,
        }
        try:
            finished = await self._children.run(
                [self._shell, "-c", command], self._workspace.root, environment, timeout_s
            )
        except (OSError, ValueError) as error:
            raise ToolFailed("cannot_start", f"The shell cannot be started: {error}.") from error
        output: JsonObject = {
            "exit_code": finished.exit_code,
            "stdout": finished.stdout.text(),
            "stderr": finished.stderr.text(),
        }
        if finished.exit_code is None:
            raise ToolFailed("timeout", f"Killed after {timeout_s:g} s.", output)
        return ToolOutput(output)
