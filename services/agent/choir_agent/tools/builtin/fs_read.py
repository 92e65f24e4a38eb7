"""`choir.fs.read`: read a file of the workspace, whole or a part of its lines (spec 8.7).

Called by the arbiter under `file:<path>` S.
"""

import asyncio
import base64
import os
from collections import deque
from dataclasses import dataclass
from itertools import islice

from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_common.wire.json import JsonObject

MAX_CHARS = 60_000
MAX_LINES = 5_000
MAX_FILE_BYTES = 50_000_000
BINARY_BYTES = 3_000
SNIFF_BYTES = 8_192

_LINES: JsonObject = {"type": "integer", "minimum": 1, "maximum": MAX_LINES}

MANIFEST = ToolManifest(
    LlmView(
        name="choir.fs.read",
        description=(
            "Read a file in the workspace. Without further arguments the whole file (large files are "
            "cut: ask for a part); `head` or `tail`: that many lines from its start or end; "
            "`start_line` and `end_line`: that range, counted from 1. A binary file comes as base64."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "relative to the workspace"},
                "head": _LINES,
                "tail": _LINES,
                "start_line": {"type": "integer", "minimum": 1},
                "end_line": {"type": "integer", "minimum": 1},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        timeout_ms=15_000,
        side_effect="none",
        idempotent=True,
        locks=(LockTemplate("file:{path}", "S"),),
    ),
)


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of a file; `total` counts all of them."""

    first: int
    lines: list[str]
    total: int


class FsRead:
    """Reads files of the workspace."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Read; raises ToolFailed for a missing file, one outside, or a range that is none."""
        return ToolOutput(await asyncio.to_thread(self._read, context.path, arguments))

    def _read(self, path: str, arguments: JsonObject) -> JsonObject:
        with os.fdopen(self._workspace.open_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise ToolFailed(
                    "too_large", f"{path!r} has {size} bytes; read parts of it with choir.exec."
                )
            start = file.read(SNIFF_BYTES)
            if b"\x00" in start:
                return _binary(path, start, size)
            content = start + file.read()
        text = content.decode("utf-8", "replace")
        return _text(path, size, _choose(text, arguments))


def _binary(path: str, start: bytes, size: int) -> JsonObject:
    head = start[:BINARY_BYTES]
    return {
        "path": path,
        "bytes": size,
        "binary": True,
        "note": f"binary; the first {len(head)} bytes as base64",
        "base64": base64.b64encode(head).decode(),
    }


def _number(arguments: JsonObject, name: str) -> int | None:
    value = arguments.get(name)
    # JSON Schema calls 3.0 an integer
    return int(value) if isinstance(value, int | float) else None


def _choose(text: str, arguments: JsonObject) -> _Part:
    head, tail = _number(arguments, "head"), _number(arguments, "tail")
    start, end = _number(arguments, "start_line"), _number(arguments, "end_line")
    ranged = start is not None or end is not None
    if (head is not None) + (tail is not None) + ranged > 1:
        raise ToolFailed("bad_input", "Give only one of head, tail, start_line/end_line.")
    lines = text.splitlines(keepends=True)
    total = len(lines)
    if head is not None:
        return _Part(1, lines[:head], total)
    if tail is not None:
        chosen = list(deque(lines, maxlen=tail))
        return _Part(total - len(chosen) + 1, chosen, total)
    if not ranged:
        return _Part(1, lines, total)
    first, last = start or 1, end or total
    if last < first and total:
        raise ToolFailed("bad_input", f"end_line {last} is before start_line {first}.")
    return _Part(first, list(islice(lines, first - 1, last)), total)


def _text(path: str, size: int, part: _Part) -> JsonObject:
    text = "".join(part.lines)
    output: JsonObject = {
        "path": path,
        "bytes": size,
        "total_lines": part.total,
        "first_line": part.first,
        "last_line": part.first + len(part.lines) - 1,
        "text": text[:MAX_CHARS],
    }
    if len(text) > MAX_CHARS:
        shown = text[:MAX_CHARS].count("\n")
        output |= {
            "truncated": True,
            "last_line": part.first + shown,
            "note": f"cut after {MAX_CHARS} characters; go on with start_line",
        }
    return output
