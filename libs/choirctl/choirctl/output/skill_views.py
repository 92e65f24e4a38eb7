"""A skill folder as a person reads it before a yes: every file, whole. Pure."""

import hashlib
from collections.abc import Iterator

from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.skill_folders.folder import SkillFolder
from choir_common.skill_folders.scan import Finding

RULE = "─" * 72


def folder_lines(folder: SkillFolder, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield the lines: what it is, the text of each file, then what the scan found."""
    front = folder.front
    yield _("Skill {name}, {count} files, SHA-256 {sha256}").format(
        name=front.name, count=len(folder.files), sha256=folder.sha256
    )
    for label, value in (
        (_("Description"), front.description),
        (_("License"), front.license),
        (_("Compatibility"), front.compatibility),
        (
            _("Allowed tools"),
            None if front.allowed_tools is None else " ".join(front.allowed_tools),
        ),
    ):
        if value:
            yield f"{label}: {' '.join(escape_hidden(value).split())}"
    for file in folder.files:
        runs = _(", executable") if file.executable else ""
        yield RULE
        yield _("File {path}, {count} bytes{runs}").format(
            path=file.path, count=len(file.content), runs=runs
        )
        text = file.text()
        if text is None:
            yield _("  (binary, SHA-256 {sha256})").format(
                sha256=hashlib.sha256(file.content).hexdigest()
            )
            continue
        # A mark before each line: no line of a file can pass for one of ours.
        yield from (f"│ {escape_hidden(line, keep=chr(9))}" for line in text.split("\n"))
    yield RULE
    yield from finding_lines(findings)


def finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield a line for each finding."""
    if not findings:
        yield _("The scan found nothing. That proves nothing: read the text above.")
    for finding in findings:
        kind = _("REFUSED") if finding.level == "refused" else _("Warning")
        yield f"{kind}: {finding}"
