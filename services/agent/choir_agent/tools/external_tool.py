"""A tool that is a separate program: a JSON object on standard input, a JSON object on standard output.

The input is {"call_id", "input", "secrets"?}. The call_id is the idempotency key: the program must not repeat
an effect for a call_id it has seen. Standard error goes to the agent's log.
"""

import asyncio
import hashlib
from pathlib import Path

import orjson
import structlog

from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.model import JsonObject

log = structlog.get_logger("choir.agent.tools")

MAX_RESULT_BYTES = 2_000_000
MAX_LOGGED_BYTES = 8_000
# Margin of the arbiter's timeout above the program's own, which must expire first.
TIMEOUT_MARGIN_MS = 2_000


class ExternalTool:
    """Runs one executable as long as its hash is the one computed at startup."""

    def __init__(
        self, manifest: ToolManifest, *, executable: Path, digest: str, children: ProgramRunner
    ) -> None:
        self.manifest = manifest
        self._executable = executable
        self._digest = digest
        self._children = children

    @property
    def executable(self) -> Path:
        """Return the program, with links resolved."""
        return self._executable

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run the program; raises ToolFailed if it fails or its output is not a valid result."""
        # Checked before each call: the program may have been replaced since startup.
        await asyncio.to_thread(self._check)
        runtime = self.manifest.runtime
        input_: JsonObject = {"call_id": context.call_id, "input": arguments}
        if context.secrets:
            input_["secrets"] = {str(name): value for name, value in context.secrets.items()}
        program = Program(
            context.call_id,
            [str(self._executable)],
            (runtime.timeout_ms - TIMEOUT_MARGIN_MS) / 1000,
            stdin=orjson.dumps(input_),
            # Git gets credentials from a helper socket, not from the environment.
            with_git="git_identity" in runtime.secret_resources,
            offline=not runtime.network,
            tool=self.manifest.name,
            hosts=runtime.hosts or context.hosts,
            is_limited=bool(runtime.hosts),
        )
        stdout, stderr = OutputCapture(MAX_RESULT_BYTES // 2), OutputCapture(MAX_LOGGED_BYTES // 2)
        try:
            exit_code = await self._children.run(program, stdout, stderr)
        except OSError as error:
            raise ToolFailed("cannot_start", f"The tool cannot be started: {error}.") from error
        if stderr.size:
            about = {"tool": self.manifest.name, "call_id": context.call_id}
            log.info("tool stderr", **about, text=stderr.text())
        output = _result(exit_code, stdout)
        summary = output.get("summary")
        return ToolOutput(output, summary if isinstance(summary, str) else "done")

    def _check(self) -> None:
        try:
            now = hashlib.sha256(self._executable.read_bytes()).hexdigest()
        except OSError as error:
            raise ToolFailed(
                "cannot_start", f"The tool's program cannot be read: {error.strerror}."
            ) from error
        if now != self._digest:
            raise ToolFailed(
                "changed",
                "The tool's program has changed since the agent started; the user must restart the "
                "agent to use it.",
            )


def _result(exit_code: int | None, stdout: OutputCapture) -> JsonObject:
    if exit_code is None:
        raise ToolFailed("timeout", "The tool timed out and was killed.")
    if stdout.missing:
        raise ToolFailed(
            "bad_result", f"The tool's output of {stdout.size} bytes exceeds the limit."
        )
    try:
        result = orjson.loads(bytes(stdout.start + stdout.end))
    except orjson.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        if exit_code != 0:
            raise ToolFailed("failed", f"The tool ended with exit code {exit_code} and no result.")
        raise ToolFailed("bad_result", "The tool's output is not one JSON object.")
    # A program may report a structured error with either exit code.
    if exit_code != 0 or result.get("status") == "error":
        code, message = result.pop("code", None), result.pop("message", None)
        result.pop("status", None)
        raise ToolFailed(
            code if isinstance(code, str) and code else "failed",
            message if isinstance(message, str) and message else f"Exit code {exit_code}.",
            result,
        )
    return result
