"""Reader of the end of a child's log, to report why it exited."""

import json
import os
from pathlib import Path

TAIL_BYTES = 4096


def read_log_tail(log: Path, lines: int = 4) -> str:
    """Return the last `lines` lines of `log` joined in one line, or "" if there are none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return " | ".join(_words(line.strip()) for line in text.splitlines()[-lines:] if line.strip())


def _words(line: str) -> str:
    """Return the message of a JSON log line."""
    try:
        found = json.loads(line)
    except ValueError:
        return line
    return str(found.get("message", line)) if isinstance(found, dict) else line
