"""Static parts of the prompts: the lanes' instructions, and the identity files in /choir.

Read once at startup; a change of the identity takes effect after a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import structlog

log = structlog.get_logger("choir.agent.prompt")

MAX_IDENTITY_CHARS = 100_000
EDGE_FILES = (("USER.md", "The user"), ("SOUL.md", "Your personality"))
CORE_FILES = (("SOUL-CORE.md", "Your personality"),)

INCOGNITO_TEXT = (
    "# Incognito\n\nThe user has switched this conversation to incognito. Nothing of it reaches your "
    "memory, and its log is erased when the session ends. The memory tools fail here. Do not promise to "
    "remember anything, and write what the user says into files only if the user asks you to."
)


@dataclass(frozen=True, slots=True)
class StaticPrompts:
    """The first part of each lane's prompt; it does not change while the agent runs."""

    edge: str
    core: str


def read_static_prompts(
    choir_dir: Path, skills: Iterable[tuple[str, str]] = (), *, incognito: bool = False
) -> StaticPrompts:
    """Return instructions, names and descriptions of skills, and identity, for each lane.

    With `incognito`, each prompt says that nothing of the session is remembered.

    A missing identity file is skipped.
    """
    extra = "\n\n".join(filter(None, (_list_skills(skills), INCOGNITO_TEXT if incognito else "")))
    return StaticPrompts(
        edge=_together("edge.md", extra, choir_dir, EDGE_FILES),
        core=_together("core.md", extra, choir_dir, CORE_FILES),
    )


def _together(
    instructions: str, extra: str, choir_dir: Path, identity: tuple[tuple[str, str], ...]
) -> str:
    parts = [files("choir_agent.prompt").joinpath(instructions).read_text("utf-8").strip(), extra]
    for name, heading in identity:
        text = _read(choir_dir / name)
        if text:
            parts.append(f"# {heading} ({name})\n\n{text}")
    return "\n\n".join(part for part in parts if part)


def _list_skills(skills: Iterable[tuple[str, str]]) -> str:
    lines = [f"- {name}: {' '.join(description.split())}" for name, description in skills]
    return "\n".join(["# Skills", "", *lines]) if lines else ""


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MAX_IDENTITY_CHARS).strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        log.warning("cannot read an identity file", path=str(path), error=error.strerror)
        return ""
