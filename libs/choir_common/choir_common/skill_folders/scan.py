"""Scan of a skill folder for what a reader cannot see or may overlook. Pure.

A scan proves nothing: a person reads the whole folder. It refuses what cannot be read, and marks the rest.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from choir_common.escape_text import escape_hidden
from choir_common.skill_folders.folder import SCRIPTS, SkillFolder, SkillFolderFile

ASSETS = "assets/"
LONG_LINE = 1_000
MAX_FINDINGS_PER_FILE = 20
PROGRAM_BEGINNINGS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")

# One selects how a symbol looks; a row of them can only hide a text, bit by bit.
_SELECTORS = re.compile("[\ufe0e\ufe0f]{2}")

Level = Literal["refused", "warning"]

_SIGNS = (
    (
        re.compile(
            r"\b(curl|wget|urllib|requests|httpx|aiohttp|socket|ssh|scp|ftp|telnet|ncat|netcat)\b"
            r"|\bfetch\(|\bnc -|https?://|/dev/tcp/",
            re.IGNORECASE,
        ),
        "may use the network; scripts of skills have none",
    ),
    (
        re.compile(
            r"\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|rules?|prompts?)\b"
            r"|\b(do not|don't|never)\b.{0,20}\b(tell|inform|mention|show)\b.{0,30}\b(user|owner|person)\b"
            r"|\bwithout (asking|approval|telling)\b|<important>|system prompt",
            re.IGNORECASE,
        ),
        "reads like an instruction against the user",
    ),
    (re.compile(r"<!--"), "an HTML comment, which a rendered page does not show"),
    (re.compile(r"[A-Za-z0-9+/]{200,}"), "encoded data, which a person cannot read"),
    (
        re.compile(r"\b(eval|exec)\s*\(|base64 (-d|--decode)|\b(ba)?sh -c\b|pickle\.loads?"),
        "runs text as a program",
    ),
    (
        re.compile(r"\.ssh/|\.netrc|\.aws/|\bid_rsa\b|/etc/passwd|\bAPI[_-]?KEY\b", re.IGNORECASE),
        "names a place of secrets",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a file; `line` counts from 1, and 0 stands for the whole file."""

    level: Level
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"


def scan_folder(folder: SkillFolder) -> tuple[Finding, ...]:
    """Return what the scan found, refusals first."""
    findings = [finding for file in folder.files for finding in _scan_file(file)]
    findings += _scan_fields(folder)
    if folder.unknown_fields:
        names = ", ".join(folder.unknown_fields)
        findings.append(Finding("warning", "SKILL.md", 0, f"unknown fields are ignored: {names}"))
    return tuple(sorted(findings, key=lambda finding: (finding.level, finding.path, finding.line)))


def find_refusals(folder: SkillFolder) -> tuple[Finding, ...]:
    """Return why a folder must not be imported or built."""
    return tuple(finding for finding in scan_folder(folder) if finding.level == "refused")


def _scan_fields(folder: SkillFolder) -> Iterator[Finding]:
    # An escape of YAML, such as "\\u200b", is plain text in the file and hidden in the prompt.
    front = folder.front
    texts = (front.description, front.license, front.compatibility, *front.metadata.values())
    for text in (*texts, *front.metadata, *(front.allowed_tools or ())):
        if _shows_hidden(text):
            yield Finding("refused", "SKILL.md", 0, "invisible characters in a field of its YAML")
            return


def _shows_hidden(text: str) -> bool:
    return escape_hidden(text) != text or _SELECTORS.search(text) is not None


def _scan_file(file: SkillFolderFile) -> Iterator[Finding]:
    if file.content.startswith(PROGRAM_BEGINNINGS):
        yield Finding("refused", file.path, 0, "a compiled program")
        return
    text = file.text()
    if text is None:
        if file.path.startswith(ASSETS) and not file.executable:
            size = len(file.content)
            yield Finding("warning", file.path, 0, f"binary, {size} bytes: nobody can read it here")
        else:
            yield Finding("refused", file.path, 0, "binary; only files in assets/ may be")
        return
    if file.executable and not file.path.startswith(SCRIPTS):
        yield Finding("warning", file.path, 0, "executable outside scripts/; it will not be run")
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        for finding in _scan_line(file.path, number, line.removesuffix("\r")):
            count += 1
            # A refusal must not hide behind many warnings.
            if finding.level == "refused" or count <= MAX_FINDINGS_PER_FILE:
                yield finding
    if count > MAX_FINDINGS_PER_FILE:
        yield Finding("warning", file.path, 0, f"{count - MAX_FINDINGS_PER_FILE} more findings")


def _scan_line(path: str, number: int, line: str) -> Iterator[Finding]:
    escaped = escape_hidden(line, keep="\t")
    if escaped != line:
        hidden = ", ".join(dict.fromkeys(re.findall(r"<U\+[0-9A-F]{4,6}>", escaped)))
        yield Finding("refused", path, number, f"invisible characters: {hidden[:80]}")
    elif _SELECTORS.search(line):
        yield Finding("refused", path, number, "invisible characters: a row of emoji selectors")
    if len(line) > LONG_LINE:
        yield Finding("warning", path, number, f"a line of {len(line)} characters")
    for pattern, text in _SIGNS:
        if pattern.search(line):
            yield Finding("warning", path, number, text)
