"""Read the edge lane's instructions and the identity files from /choir (spec 11.3, 15.1).

Called once by `app`; identity changes only with a restart (spec 16.2).
"""

from importlib.resources import files
from pathlib import Path

import structlog

log = structlog.get_logger("choir.agent.prompt")

MAX_IDENTITY_CHARS = 100_000


def read_static_prompt(choir_dir: Path) -> str:
    """Return instructions, USER.md and SOUL.md as one text; a missing identity file is left out."""
    parts = [files("choir_agent.prompt").joinpath("edge.md").read_text("utf-8").strip()]
    for name, heading in (("USER.md", "The user"), ("SOUL.md", "Your personality")):
        text = _read(choir_dir / name)
        if text:
            parts.append(f"# {heading} ({name})\n\n{text}")
    return "\n\n".join(parts)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_IDENTITY_CHARS).strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        log.warning("cannot read an identity file", path=str(path), reason=error.strerror)
        return ""
