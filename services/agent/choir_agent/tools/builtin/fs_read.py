"""`choir.fs.read`: read a file of the workspace, whole or in part, by lines or by bytes.

Runs under lock `file:<path>` S.
"""

import asyncio
import base64
import io
import os
from dataclasses import dataclass
from typing import BinaryIO

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.file_lines import (
    FileOverview,
    drop_partial_character,
    line_offset,
    scan_file,
)
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.attachments import PictureRef
from choir_common.wire.model import JsonObject
from choir_files.errors import UnreadableFile
from choir_files.formats import FileFormat, detect_format, is_picture

MAX_BYTES = 60_000
MAX_LINES = 5_000
MAX_FILE_BYTES = 500_000_000
BINARY_BYTES = 3_000
DOCUMENTS = ("pdf", "word", "slides", "sheet")
"""Formats whose text is read instead of the bytes."""
SNIFF_BYTES = 8_192

_LINES: JsonObject = {"type": "integer", "minimum": 1, "maximum": MAX_LINES}
_LINE: JsonObject = {"type": "integer", "minimum": 1}

MANIFEST = ToolManifest(
    LlmView(
        name="choir.fs.read",
        description=(
            "Read a file in the workspace: the whole file (large files are cut: ask for a part); `head` or "
            "`tail`: that many lines from its start or end; `start_line` and `end_line`: that range, from 1; "
            "`offset` and `length`: bytes, for very long lines (go on at next_offset). PDF and Office files "
            "come as text, pictures as pictures, others as base64."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "relative to the workspace"},
                "head": _LINES,
                "tail": _LINES,
                "start_line": _LINE,
                "end_line": _LINE,
                "offset": {"type": "integer", "minimum": 0},
                "length": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(private=True, reads_workspace=True),
        timeout_ms=15_000,
        side_effect="none",
        idempotent=True,
        locks=(LockTemplate("file:{path}", "S"),),
    ),
)


@dataclass(frozen=True, slots=True)
class _LineRange:
    """Lines of a file, counted from 1; empty if `last` is less than `first`."""

    first: int
    last: int


class FsReadTool:
    """Reads files of the workspace."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace, files: WorkspaceFiles) -> None:
        self._workspace = workspace
        self._files = files

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Read the file; raises ToolFailed for a missing file, one outside the workspace, or an
        invalid range."""
        path, requested_part = context.path, _choose(arguments)
        if requested_part == "whole" and is_picture(path):
            output = await asyncio.to_thread(self._describe_picture, path)
            picture = PictureRef(path=path, hash=str(output["hash"]))
            return ToolOutput(output, f"the picture {path}", pictures=(picture,))
        file_format = detect_format(path)
        if requested_part != "chunk" and file_format in DOCUMENTS:
            text = await self._document_text(path, file_format)
            output = await asyncio.to_thread(self._read_document, path, text, arguments)
        else:
            output = await asyncio.to_thread(self._read, path, arguments)
        return ToolOutput(output, _summary(output))

    async def _document_text(self, path: str, file_format: FileFormat) -> str:
        try:
            return await self._files.read_text(path, file_format)
        except UnreadableFile as error:
            raise ToolFailed("unreadable", f"{path!r} {error}.") from error

    def _describe_picture(self, path: str) -> JsonObject:
        with os.fdopen(self._workspace.open_file(path), "rb") as file:
            about = scan_file(file)
        return {"path": path, "bytes": about.size, "hash": about.hash}

    def _read_document(self, path: str, text: str, arguments: JsonObject) -> JsonObject:
        with os.fdopen(self._workspace.open_file(path), "rb") as file:
            about = scan_file(file)
        content = io.BytesIO(text.encode())
        about_text = scan_file(content)
        output: JsonObject = {"path": path, "bytes": about.size, "hash": about.hash}
        return output | _text(content, about_text, _range(arguments, about_text.lines))

    def _read(self, path: str, arguments: JsonObject) -> JsonObject:
        with os.fdopen(self._workspace.open_file(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise ToolFailed(
                    "too_large", f"{path!r} has {size} bytes; read parts of it with choir.exec."
                )
            requested_part = _choose(arguments)
            about = scan_file(file)
            file.seek(0)
            binary = b"\x00" in file.read(SNIFF_BYTES)
            output: JsonObject = {"path": path, "bytes": about.size, "hash": about.hash}
            if requested_part == "chunk" or binary:
                return output | _chunk(file, about, arguments, binary)
            return output | _text(file, about, _range(arguments, about.lines))


def _summary(output: JsonObject) -> str:
    path, size = output["path"], output["bytes"]
    if "first_line" in output:
        lines = f"lines {output['first_line']} to {output['last_line']} of {output['total_lines']}"
        return f"{lines} of {path}"
    return f"a part of {path}, from byte {output['offset']} of {size}"


def _number(arguments: JsonObject, name: str) -> int | None:
    value = arguments.get(name)
    # JSON Schema accepts 3.0 as an integer.
    return int(value) if isinstance(value, int | float) else None


def _choose(arguments: JsonObject) -> str:
    """Return which kind of part is requested; raises ToolFailed for more than one."""
    kinds = {
        "head": "head" in arguments,
        "tail": "tail" in arguments,
        "lines": "start_line" in arguments or "end_line" in arguments,
        "chunk": "offset" in arguments or "length" in arguments,
    }
    requested_kinds = [kind for kind, is_asked in kinds.items() if is_asked]
    if len(requested_kinds) > 1:
        raise ToolFailed(
            "bad_input", "Give only one of head, tail, start_line/end_line, offset/length."
        )
    return requested_kinds[0] if requested_kinds else "whole"


def _range(arguments: JsonObject, total: int) -> _LineRange:
    head, tail = _number(arguments, "head"), _number(arguments, "tail")
    if head is not None:
        return _LineRange(1, min(head, total))
    if tail is not None:
        return _LineRange(max(1, total - tail + 1), total)
    first = _number(arguments, "start_line") or 1
    last = _number(arguments, "end_line") or max(total, first)
    if last < first:
        raise ToolFailed("bad_input", f"end_line {last} is before start_line {first}.")
    if first > max(total, 1):
        raise ToolFailed("bad_input", f"The file has {total} lines.", {"total_lines": total})
    return _LineRange(first, min(last, total))


def _text(file: BinaryIO, about: FileOverview, lines: _LineRange) -> JsonObject:
    start = line_offset(file, lines.first)
    end = about.size if lines.last >= about.lines else line_offset(file, lines.last + 1)
    file.seek(start)
    # A limit in bytes may cut a character in two.
    content = drop_partial_character(file.read(min(end - start, MAX_BYTES)))
    output: JsonObject = {
        "total_lines": about.lines,
        "first_line": lines.first,
        "last_line": lines.last,
        "text": content.decode("utf-8", "replace"),
    }
    if len(content) < end - start:
        line_count = content.count(b"\n")
        output |= {
            "truncated": True,
            "last_line": lines.first + line_count,
            "next_offset": start + len(content),
            "note": f"cut after {len(content)} bytes; continue with start_line, or with offset",
        }
    return output


def _chunk(file: BinaryIO, about: FileOverview, arguments: JsonObject, binary: bool) -> JsonObject:
    most = BINARY_BYTES if binary else MAX_BYTES
    offset = _number(arguments, "offset") or 0
    length = min(_number(arguments, "length") or most, most)
    if offset > about.size:
        raise ToolFailed("bad_input", f"The file has {about.size} bytes.")
    file.seek(offset)
    content = file.read(length)
    output: JsonObject = {"offset": offset}
    if binary:
        output |= {"binary": True, "base64": base64.b64encode(content).decode()}
    else:
        # Never empty, even if the file is not UTF-8.
        content = drop_partial_character(content) or content
        output["text"] = content.decode("utf-8", "replace")
    if offset + len(content) < about.size:
        output["next_offset"] = offset + len(content)
    return output
