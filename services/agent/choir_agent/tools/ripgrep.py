"""Parse ripgrep's output (`rg --json`) as it arrives, and stop when there are enough matches.

Output may be arbitrarily long: lines are truncated, and messages over the limit are dropped.
"""

import base64
import binascii
import shutil
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import JsonValue

from choir_agent.tools.program_runner import PATH
from choir_agent.tools.streams import StreamSink
from choir_common.wire.model import JsonObject

MAX_MESSAGE_BYTES = 4_000_000
MAX_LINE_CHARS = 500


def find_ripgrep() -> str | None:
    """Return the path of ripgrep: the installed wheel's, else the system's; None if there is none."""
    beside_us = Path(sysconfig.get_path("scripts"), "rg")
    return str(beside_us) if beside_us.is_file() else shutil.which("rg", path=PATH)


@dataclass(slots=True)
class FileMatches:
    """Matches in one file."""

    path: str
    lines: list[JsonObject] = field(default_factory=list)
    matches: int = 0


class MatchCollector(StreamSink):
    """Collects matches until there are `max_results` of them, or as many files with `files_only`."""

    def __init__(self, max_results: int, *, files_only: bool, only_path: str | None = None) -> None:
        super().__init__()
        self._max_results = max_results
        self._files_only = files_only
        self._only_path = only_path
        self._rest = b""
        self._skipping = False
        self.files: list[FileMatches] = []
        self.count = 0

    def data_received(self, data: bytes) -> None:
        """Parse the messages that arrived; each message is a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._skipping:
                # The rest of a message whose beginning was dropped.
                self._skipping = False
            elif not self.enough.is_set():
                self._take(line)
        # A single line of a binary or minified file can be arbitrarily long.
        if len(self._rest) > MAX_MESSAGE_BYTES:
            self._rest, self._skipping = b"", True

    def _take(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        data = message.get("data") if isinstance(message, dict) else None
        if not isinstance(data, dict):
            return
        match message.get("type"):
            case "begin":
                path = self._only_path or _text(data.get("path")).removeprefix("./")
                self.files.append(FileMatches(path))
            case "match":
                self._add(data, is_match=True)
            case "context" if not self._files_only:
                self._add(data, is_match=False)

    def _add(self, data: JsonObject, *, is_match: bool) -> None:
        if not self.files:
            return
        file = self.files[-1]
        file.matches += is_match
        self.count += is_match
        if not self._files_only:
            line: JsonObject = {"line": data.get("line_number"), "text": _matched_line(data)}
            if not is_match:
                line["context"] = True
            file.lines.append(line)
        count = len(self.files) if self._files_only else self.count
        if is_match and count >= self._max_results:
            self.enough.set()


def _matched_line(data: JsonObject) -> str:
    """Return the line, truncated to the part with the match."""
    text = _text(data.get("lines")).rstrip("\r\n")
    if len(text) <= MAX_LINE_CHARS:
        return text
    first = data.get("submatches")
    start = 0
    if isinstance(first, list) and first and isinstance(first[0], dict):
        offset = first[0].get("start")
        # A byte offset, not characters: accurate enough to choose a window.
        start = max(0, offset - MAX_LINE_CHARS // 4) if isinstance(offset, int) else 0
    start = min(start, len(text) - MAX_LINE_CHARS)
    cut = text[start : start + MAX_LINE_CHARS]
    return f"{'…' if start else ''}{cut}{'…' if start + MAX_LINE_CHARS < len(text) else ''}"


def _text(value: JsonValue) -> str:
    """Return a text of a ripgrep message, which is base64 if it is not UTF-8."""
    if not isinstance(value, dict):
        return ""
    text, encoded = value.get("text"), value.get("bytes")
    if isinstance(text, str):
        return text
    try:
        return base64.b64decode(str(encoded)).decode("utf-8", "replace")
    except binascii.Error:
        return ""
