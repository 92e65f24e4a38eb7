"""Files that a call would send: what a person is shown of them, and the check that they are still the same.

The yes of a person covers the content that was shown. The tool that sends the files compares the bytes that
it has read, so that a change between the question and the mail is found whenever it happens.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.tool import AttachedFile, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.model import JsonObject

CHUNK_BYTES = 1_000_000
MAX_ATTACHED_BYTES = 18_000_000
"""25 MB after encoding, the limit of most mail servers."""
MAX_SHOWN_CHARS = 400
"""Characters of a text file that are part of the question."""
MAX_TEXT_BYTES = 64_000
"""Larger files are not shown as text."""


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """A file as the question describes it."""

    file: AttachedFile
    text: str = ""
    """The beginning of a small text file."""
    is_all: bool = False
    error: str = ""
    """Why it cannot be read; then it cannot be sent after the question either."""

    def as_json(self) -> JsonValue:
        """Return what a person is shown."""
        if self.error:
            return {"path": self.file.path, "error": self.error}
        described: JsonObject = {
            "path": self.file.path,
            "bytes": self.file.size,
            "sha256": self.file.sha256,
        }
        if self.text:
            described["text" if self.is_all else "begins_with"] = self.text
        return described


def describe_attachments(
    workspace: Workspace, flow: DataFlow, arguments: JsonObject
) -> tuple[DescribedFile, ...]:
    """Return the files that a call would send by mail; nothing for other calls.

    Reads no more bytes than can be sent.
    """
    paths = arguments.get("attachments") if flow.sends == "mail" else None
    described: list[DescribedFile] = []
    limit = MAX_ATTACHED_BYTES
    for path in paths if isinstance(paths, list) else ():
        described.append(_describe(workspace, str(path), limit))
        limit -= described[-1].file.size
    return tuple(described)


def call_payload(tool: str, arguments: JsonObject, files: Sequence[DescribedFile]) -> JsonObject:
    """Return what a person decides on: the call, and the content of the files that it sends."""
    payload: JsonObject = {"tool": tool, "input": arguments}
    if files:
        payload["attachments"] = [file.as_json() for file in files]
    return payload


def check_unchanged(
    path: str, content: bytes, approved_files: Sequence[AttachedFile] | None
) -> None:
    """Raise ToolFailed if a file is not the one that was shown.

    `approved_files` is None if nobody was asked.
    """
    if approved_files is None:
        return
    sha256 = hashlib.sha256(content).hexdigest()
    if any(file.path == path and file.sha256 == sha256 for file in approved_files):
        return
    raise ToolFailed(
        "changed_after_question",
        f"{path} has changed since a person was asked about this call, so nothing was sent. The yes was for "
        "the earlier content: make the call again, and a person is asked about the new one.",
    )


def _describe(workspace: Workspace, path: str, limit: int) -> DescribedFile:
    digest, size, head = hashlib.sha256(), 0, b""
    try:
        with os.fdopen(workspace.open_file(workspace.canonical(path)), "rb") as file:
            for chunk in _chunks(file.fileno()):
                digest.update(chunk)
                head = head or chunk[:MAX_TEXT_BYTES]
                size += len(chunk)
                if size > limit:
                    raise ToolFailed("too_large", "the files together are too large to be sent")
    except ToolFailed as error:
        return DescribedFile(AttachedFile(path, 0, ""), error=error.kind)
    except OSError as error:
        return DescribedFile(AttachedFile(path, 0, ""), error=str(error.strerror))
    text = _text(head) if size <= MAX_TEXT_BYTES else ""
    return DescribedFile(
        AttachedFile(path, size, digest.hexdigest()),
        text[:MAX_SHOWN_CHARS],
        is_all=len(text) <= MAX_SHOWN_CHARS,
    )


def _chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, CHUNK_BYTES):
        yield chunk


def _text(content: bytes) -> str:
    """Return the content if it is text, else nothing."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ""
    return "" if "\x00" in text else text
