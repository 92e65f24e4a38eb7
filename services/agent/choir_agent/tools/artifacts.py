"""Store for tool outputs that are too large for a prompt, as files of the workspace.

A file is named by the hash of its content, so storing the same output twice has no effect. `choir.fs.read`
reads it by its reference. When the size or count limit is exceeded, the oldest files are deleted.
"""

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass

import orjson
import structlog
from pydantic import JsonValue

from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import ARTIFACTS_DIR, Workspace
from choir_common.eventlog.json_scrubbing import scrub_json
from choir_common.redactor import Redactor
from choir_common.wire.model import JsonObject

log = structlog.get_logger("choir.agent.tools")

MAX_TOTAL_BYTES = 64_000_000
MAX_FILES = 1_000
_NAME = re.compile(r"[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class _ArtifactFile:
    """A stored artifact file; `age_key` is its modification time in nanoseconds."""

    age_key: int
    name: str
    size: int


class ArtifactStore:
    """The artifact files of one workspace, without secret values."""

    def __init__(
        self,
        workspace: Workspace,
        redactor: Redactor,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> None:
        self._workspace = workspace
        self._redactor = redactor
        self._max_total_bytes = max_total_bytes

    def keep(self, output: JsonObject) -> str | None:
        """Store the whole output and return its reference, or None if it cannot be stored."""
        # Indented, so that `choir.fs.read` can read it by lines.
        content = orjson.dumps(self._cleaned(scrub_json(output)), option=orjson.OPT_INDENT_2)
        reference = f"{ARTIFACTS_DIR}/{hashlib.sha256(content).hexdigest()[:16]}.json"
        if len(content) > self._max_total_bytes:
            return None
        try:
            self._workspace.replace_file(reference, content)
            self._make_room()
        except (ToolFailed, OSError) as error:
            log.warning("artifact not stored", error=str(error))
            return None
        return reference

    def _cleaned(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self._redactor.redact(value)
            case dict():
                return {
                    self._redactor.redact(key): self._cleaned(item) for key, item in value.items()
                }
            case list():
                return [self._cleaned(item) for item in value]
        return value

    def _make_room(self) -> None:
        directory = self._workspace.open_directory(ARTIFACTS_DIR)
        try:
            newest_first = sorted(
                _artifacts_in(directory), key=lambda file: file.age_key, reverse=True
            )
            total = 0
            for count, file in enumerate(newest_first, 1):
                total += file.size
                # Never delete the newest one: it was just written.
                if count > 1 and (count > MAX_FILES or total > self._max_total_bytes):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(file.name, dir_fd=directory)
        finally:
            os.close(directory)


def _artifacts_in(directory: int) -> list[_ArtifactFile]:
    artifacts: list[_ArtifactFile] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            if _NAME.fullmatch(entry.name) and stat.S_ISREG(about.st_mode):
                artifacts.append(_ArtifactFile(about.st_mtime_ns, entry.name, about.st_size))
    return artifacts
