"""`choir.fs.write`: change a file of the workspace atomically.

Runs under lock `file:<path>` X, after the commitment is durable. The new content is renamed into place, so a
reader sees either the old or the new file.
"""

import asyncio
import os

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.file_lines import content_hash, split_lines
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

MAX_FILE_BYTES = 20_000_000
MAX_SHOWN = 4_000

MANIFEST = ToolManifest(
    LlmView(
        name="choir.fs.write",
        description=(
            "Write a file in the workspace; missing directories are made. mode `overwrite` (default): "
            "the whole file; `create`: the same, refused if there is one; `append`: at its end; "
            "`replace`: lines start_line to end_line, from 1, by content; `insert`: content before line "
            "start_line (one past the last: at the end). End content with a line break to keep lines "
            "apart. Refused when the file has changed meanwhile: expect_hash (`hash` of choir.fs.read) "
            "and, for replace, expect (the present lines)."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "relative to the workspace"},
                "content": {"type": "string"},
                "mode": {
                    "type": "string",
                    "enum": ["overwrite", "create", "append", "replace", "insert"],
                },
                "start_line": {"type": "integer", "minimum": 1},
                "end_line": {"type": "integer", "minimum": 1},
                "expect_hash": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
                "expect": {"type": "string"},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(writes="path"),
        timeout_ms=15_000,
        side_effect="write",
        # Appending or inserting twice differs from doing it once.
        idempotent=False,
        locks=(LockTemplate("file:{path}", "X"),),
    ),
)


class FsWriteTool:
    """Writes files of the workspace."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Write the file; raises ToolFailed for a path outside the workspace, or lines that do not exist."""
        output = await asyncio.to_thread(self._write, context.path, arguments)
        done = "created" if output["created"] else "changed"
        return ToolOutput(output, f"{output['path']} {done}: {output['bytes']} bytes")

    def _write(self, path: str, arguments: JsonObject) -> JsonObject:
        new_content = str(arguments["content"]).encode("utf-8", "replace")
        mode = str(arguments.get("mode", "overwrite"))
        current = self._read_current(path) if _needs_current(mode, arguments) else None
        _check_hash(path, current, arguments)
        content = _edited(path, mode, current, new_content, arguments)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed("too_large", f"The file would have {len(content)} bytes.")
        is_new = self._workspace.replace_file(path, content, must_be_new=mode == "create")
        return {
            "path": path,
            "bytes": len(content),
            "total_lines": len(split_lines(content)),
            "hash": content_hash(content),
            "mode": mode,
            "created": is_new,
        }

    def _read_current(self, path: str) -> bytes | None:
        """Return the file's content, or None if it does not exist."""
        try:
            descriptor = self._workspace.open_file(path)
        except ToolFailed as error:
            if error.kind == "not_found":
                return None
            raise
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed("too_large", f"{path!r} is too large to be edited in place.")
        return content


def _needs_current(mode: str, arguments: JsonObject) -> bool:
    return mode in ("append", "replace", "insert") or "expect_hash" in arguments


def _check_hash(path: str, current: bytes | None, arguments: JsonObject) -> None:
    expected = arguments.get("expect_hash")
    if expected is None:
        return
    now = None if current is None else content_hash(current)
    if now != expected:
        raise ToolFailed(
            "changed",
            f"{path!r} has changed since you read it; nothing was written. Read it again.",
            {"hash": now},
        )


def _edited(
    path: str, mode: str, current: bytes | None, content: bytes, arguments: JsonObject
) -> bytes:
    start, end = _line(arguments, "start_line"), _line(arguments, "end_line")
    match mode:
        case "append":
            return (current or b"") + content
        case "replace":
            if start is None or end is None or end < start:
                raise ToolFailed(
                    "bad_input", "replace needs start_line and an end_line not before it."
                )
            lines = split_lines(_existing(path, current))
            _check_range(lines, start, end)
            _check_lines(lines[start - 1 : end], arguments)
            return b"".join([*lines[: start - 1], content, *lines[end:]])
        case "insert":
            if start is None:
                raise ToolFailed("bad_input", "insert needs start_line.")
            lines = split_lines(_existing(path, current))
            _check_range(lines, start, start - 1)
            before = b"".join(lines[: start - 1])
            # Otherwise the inserted text would be appended to a last line without a line break.
            if before and not before.endswith(b"\n"):
                before += b"\n"
            return before + content + b"".join(lines[start - 1 :])
    return content


def _existing(path: str, current: bytes | None) -> bytes:
    if current is None:
        raise ToolFailed("not_found", f"{path!r} does not exist in the workspace.")
    return current


def _line(arguments: JsonObject, name: str) -> int | None:
    value = arguments.get(name)
    return int(value) if isinstance(value, int | float) else None


def _check_range(lines: list[bytes], start: int, end: int) -> None:
    inserting = end < start
    if start > len(lines) + inserting or end > len(lines):
        raise ToolFailed("bad_input", f"The file has {len(lines)} lines; read it first.")


def _check_lines(lines: list[bytes], arguments: JsonObject) -> None:
    expected = arguments.get("expect")
    now = b"".join(lines).decode("utf-8", "replace")
    # Ignore a missing final line break in the quotation: it does not indicate a change.
    if expected is not None and str(expected).rstrip("\n") != now.rstrip("\n"):
        raise ToolFailed(
            "changed",
            "The lines differ from `expect`; nothing was written. Read the file again.",
            {"present": now[:MAX_SHOWN]},
        )
