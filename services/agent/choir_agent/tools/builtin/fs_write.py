"""`choir.fs.write`: change a file of the workspace, all or nothing (spec 8.7).

Called by the arbiter under `file:<path>` X, after the commitment is durable. A reader sees the old file or
the new one, never a half: the new content is renamed into place.
"""

import asyncio
import os

from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_common.wire.json import JsonObject

MAX_FILE_BYTES = 20_000_000

MANIFEST = ToolManifest(
    LlmView(
        name="choir.fs.write",
        description=(
            "Write a file in the workspace; missing directories are made. mode `overwrite` (default): "
            "the whole file; `append`: at its end; `replace`: lines start_line to end_line, counted "
            "from 1, by content; `insert`: content before line start_line (one past the last line "
            "inserts at the end). End content with a line break to keep lines apart."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "relative to the workspace"},
                "content": {"type": "string"},
                "mode": {
                    "type": "string",
                    "enum": ["overwrite", "append", "replace", "insert"],
                },
                "start_line": {"type": "integer", "minimum": 1},
                "end_line": {"type": "integer", "minimum": 1},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        timeout_ms=15_000,
        side_effect="write",
        # appending or inserting twice is not the same as once
        idempotent=False,
        locks=(LockTemplate("file:{path}", "X"),),
    ),
)


class FsWrite:
    """Writes files of the workspace."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Write; raises ToolFailed for a path outside, or lines that do not exist."""
        return ToolOutput(await asyncio.to_thread(self._write, context.path, arguments))

    def _write(self, path: str, arguments: JsonObject) -> JsonObject:
        content = str(arguments["content"]).encode("utf-8", "replace")
        mode = str(arguments.get("mode", "overwrite"))
        start, end = _line(arguments, "start_line"), _line(arguments, "end_line")
        match mode:
            case "append":
                content = self._present(path, missing_is_empty=True) + content
            case "replace":
                if start is None or end is None or end < start:
                    raise ToolFailed(
                        "bad_input", "replace needs start_line and an end_line not before it."
                    )
                content = _replace(self._present(path), start, end, content)
            case "insert":
                if start is None:
                    raise ToolFailed("bad_input", "insert needs start_line.")
                content = _replace(self._present(path), start, start - 1, content)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed("too_large", f"The file would have {len(content)} bytes.")
        new = self._workspace.replace_file(path, content)
        return {"path": path, "bytes": len(content), "mode": mode, "created": new}

    def _present(self, path: str, *, missing_is_empty: bool = False) -> bytes:
        try:
            descriptor = self._workspace.open_file(path)
        except ToolFailed as error:
            if missing_is_empty and error.kind == "not_found":
                return b""
            raise
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ToolFailed("too_large", f"{path!r} is too large to be edited in place.")
        return content


def _line(arguments: JsonObject, name: str) -> int | None:
    value = arguments.get(name)
    return int(value) if isinstance(value, int | float) else None


def _replace(present: bytes, start: int, end: int, content: bytes) -> bytes:
    lines = present.splitlines(keepends=True)
    inserting = end < start
    if start > len(lines) + inserting or end > len(lines):
        raise ToolFailed("bad_input", f"The file has {len(lines)} lines; read it first.")
    before = b"".join(lines[: start - 1])
    if inserting and before and not before.endswith(b"\n"):
        before += b"\n"
    return before + content + b"".join(lines[end if not inserting else start - 1 :])
