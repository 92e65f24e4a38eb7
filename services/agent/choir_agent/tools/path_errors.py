"""Convert path and file errors into ToolFailed messages for the model. Pure."""

import stat

from choir_agent.tools.tool import ToolFailed


def not_a_file_error(path: str, mode: int) -> ToolFailed:
    """Return the error for a directory, symlink, FIFO, socket or device."""
    kind = "directory" if stat.S_ISDIR(mode) else "symlink" if stat.S_ISLNK(mode) else "device"
    if stat.S_ISFIFO(mode):
        kind = "fifo"
    if stat.S_ISSOCK(mode):
        kind = "socket"
    return ToolFailed("not_a_file", f"{path!r} is a {kind}, not a regular file.")


def path_error(path: str, error: OSError) -> ToolFailed:
    """Return the error for an OSError."""
    match error:
        case FileExistsError():
            return ToolFailed("exists", f"{path!r} already exists.")
        case FileNotFoundError():
            return ToolFailed("not_found", f"{path!r} does not exist in the workspace.")
        case PermissionError():
            return ToolFailed("denied", f"Permission denied for {path!r}.")
        case IsADirectoryError() | NotADirectoryError():
            return ToolFailed("not_a_file", f"{path!r}: {error.strerror}.")
    return ToolFailed("io_error", f"{path!r}: {error.strerror}.")
