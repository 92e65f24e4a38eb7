"""Save attachments of received messages in `.choirtmp/recv/` under safe file names.

Called by `incoming`. Existing files are never overwritten. The same content under the same name is
stored once, so that a repeated call changes nothing.
"""

import os
import re

from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace

FOLDER = ".choirtmp/recv"
MAX_NAME = 100
_UNSAFE = re.compile(r"[^\w.()+ -]+")
TRIES = 50


def safe_name(name: str) -> str:
    """Return a safe file name derived from the sender's: no path, not hidden, bounded in length."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = " ".join(_UNSAFE.sub("_", last).split()).strip(". ")
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) <= 10:
        return f"{stem[: MAX_NAME - len(ending) - 1]}.{ending}" if stem else f"file.{ending}"
    return plain[:MAX_NAME] or "file"


def keep(workspace: Workspace, prefix: str, name: str, content: bytes) -> str:
    """Write `content` into the folder of received files; return its path in the workspace.

    Raises ToolFailed if the folder is a symlink or cannot be written.
    """
    whole = f"{prefix}-{safe_name(name)}"
    for number in range(1, TRIES):
        stem, dot, ending = whole.rpartition(".")
        counted = (
            whole if number == 1 else f"{stem or ending}-{number}{dot}{ending if stem else ''}"
        )
        path = f"{FOLDER}/{counted}"
        if workspace.canonical(path) != path:
            raise ToolFailed(
                "outside_workspace", f"{FOLDER} is a link to elsewhere; remove the link."
            )
        present = _present(workspace, path, len(content) + 1)
        if present is None:
            workspace.replace_file(path, content)
            return path
        if present == content:
            return path
    raise ToolFailed("conflict", f"{FOLDER} is full of files named like {whole!r}; tidy it up.")


def _present(workspace: Workspace, path: str, at_most: int) -> bytes | None:
    try:
        descriptor = workspace.open_file(path)
    except ToolFailed as error:
        if error.kind == "not_found":
            return None
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(at_most)
