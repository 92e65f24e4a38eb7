"""Binary contents of an MCP server's results, as files of the workspace instead of text.

A file is named by the hash of its content, so the same content is stored once. Its name and ending are
Choir's choice, not the server's.
"""

import asyncio
import base64
import binascii
import hashlib

from pydantic import JsonValue

from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import RECEIVE_DIR, Workspace
from choir_common.wire.model import JsonObject

MAX_FILE_BYTES = 5_000_000
MAX_FILES = 20
"""Files of one result; further contents are named only."""
_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
}


class BinaryFiles:
    """Saves the binary contents of results."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def extract(self, server: str, result: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return a result with the name of a file for each binary content, and the paths of the files."""
        saver = _ResultSaver(self._workspace, server)
        # Decoding and writing megabytes takes too long for the event loop.
        return await asyncio.to_thread(saver.convert, result), saver.paths


class _ResultSaver:
    """Saves the contents of one result; blocks."""

    def __init__(self, workspace: Workspace, server: str) -> None:
        self._workspace, self._server = workspace, server
        self._count = 0
        self.paths: list[str] = []

    def convert(self, result: JsonObject) -> JsonObject:
        """Return the result without binary contents."""
        converted = dict(result)
        if isinstance(result.get("content"), list):
            converted["content"] = self._blocks(result["content"])
        if isinstance(result.get("contents"), list):
            converted["contents"] = [self._resource(entry) for entry in _list(result["contents"])]
        if isinstance(result.get("messages"), list):
            converted["messages"] = [
                {**message, "content": self._block(message.get("content"))}
                for message in _list(result["messages"])
                if isinstance(message, dict)
            ]
        return converted

    def _blocks(self, blocks: JsonValue) -> list[JsonValue]:
        return [self._block(block) for block in _list(blocks)]

    def _block(self, block: JsonValue) -> JsonValue:
        if not isinstance(block, dict):
            return block
        if block.get("type") == "resource":
            return {**block, "resource": self._resource(block.get("resource"))}
        if isinstance(block.get("data"), str) and block.get("type") in ("image", "audio"):
            note = self._save(str(block["data"]), str(block.get("mimeType")))
            return {"type": "text", "text": f"({block['type']}, {note})"}
        return block

    def _resource(self, resource: JsonValue) -> JsonValue:
        if not isinstance(resource, dict) or not isinstance(resource.get("blob"), str):
            return resource
        note = self._save(str(resource["blob"]), str(resource.get("mimeType")))
        return {"uri": resource.get("uri"), "text": f"(binary, {note})"}

    def _save(self, data: str, mime_type: str) -> str:
        """Save base64 text; return a note on what became of it."""
        kind = mime_type[:60]
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"{kind}: not shown, its base64 is invalid"
        what = f"{kind}, {len(content)} bytes"
        self._count += 1
        if len(content) > MAX_FILE_BYTES or self._count > MAX_FILES:
            limit = f"{MAX_FILES} files" if self._count > MAX_FILES else f"{MAX_FILE_BYTES} bytes"
            return f"{what}: not saved, a result has at most {limit}"
        name = hashlib.sha256(content).hexdigest()[:16]
        ending = _ENDINGS.get(mime_type.partition(";")[0].strip().lower(), "bin")
        path = f"{RECEIVE_DIR}/mcp-{self._server}-{name}.{ending}"
        try:
            self._workspace.replace_file(path, content)
        except (ToolFailed, OSError) as error:
            return f"{what}: not saved, {error}"
        self.paths.append(path)
        return f"{what}, saved as {path}"


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
