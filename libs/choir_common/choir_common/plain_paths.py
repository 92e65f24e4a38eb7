"""Paths of files in a tree of tools, skills and identity: which ones no build accepts. Pure."""

import re
from pathlib import PurePosixPath

MAX_PATH = 400
MAX_DEPTH = 20
MAX_NAME = 200
_STRANGE = re.compile(r"[\x00-\x1f\x7f\\]")


def find_path_fault(path: str) -> str | None:
    """Return why a path must not be written, or None for a valid one."""
    parts = path.split("/")
    if _STRANGE.search(path):
        return "contains a control character or a backslash"
    if any(part in ("", ".", "..") for part in parts) or PurePosixPath(path).is_absolute():
        return "points outside the repository"
    if any(part.casefold().rstrip(" .") == ".git" or part.casefold() == "git~1" for part in parts):
        return "is a git directory inside the repository"
    too_long = len(path) > MAX_PATH or any(len(part) > MAX_NAME for part in parts)
    return "is too long or too deep" if too_long or len(parts) > MAX_DEPTH else None
