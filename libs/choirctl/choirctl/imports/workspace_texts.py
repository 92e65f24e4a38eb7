"""Markdown files of an assistant's workspace: persona, memories and daily notes."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.redactor import mask_likely_keys
from choirctl.imports.items import Item, Memory, Omission, Persona
from choirctl.imports.source_files import SourceFiles, read_text
from choirctl.imports.times import parse_time

PERSONA_FILES = ("SOUL.md", "IDENTITY.md")
MEMORY_FILES = ("MEMORY.md", "USER.md", "HISTORY.md", "memory.md")
OWN_FILES = ("AGENTS.md", "TOOLS.md", "HEARTBEAT.md", "BOOTSTRAP.md", "BOOT.md")
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})")


def read_texts(files: SourceFiles, folder: str) -> Iterator[Item]:
    """Yield the texts directly in a folder, and those in its folders `memory` and `memories`."""
    for name in files.names():
        path = PurePosixPath(name)
        parent = str(path.parent) if str(path.parent) != "." else ""
        in_memory = parent in (_join(folder, "memory"), _join(folder, "memories"))
        if path.suffix != ".md" or not (parent == folder or in_memory):
            continue
        if path.name in OWN_FILES and not in_memory:
            yield Omission(
                name, _("it instructs the other program; copy by hand what still applies")
            )
        elif in_memory or path.name in (*PERSONA_FILES, *MEMORY_FILES):
            yield from _text(
                files, name, path, is_persona=path.name in PERSONA_FILES and not in_memory
            )


def _text(
    files: SourceFiles, name: str, path: PurePosixPath, *, is_persona: bool
) -> Iterator[Item]:
    try:
        text = mask_likely_keys(read_text(files, name)).strip()
    except InvalidRequest as error:
        yield Omission(name, error.message)
        return
    if not text:
        yield Omission(name, _("it is empty"))
    elif is_persona:
        yield Persona(path.name, text)
    else:
        yield Memory(name, text, _date(path.stem) or files.modified_at(name))


def _date(stem: str) -> datetime | None:
    day = _DAY.search(stem)
    time = parse_time(f"{day[1]}T12:00:00") if day else None
    return time.replace(tzinfo=UTC) if time else None


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
