"""Skills of the published format, made for tests: twenty that differ in front matter, files and language."""

from pathlib import Path

TOPICS = (
    "invoice-check", "meeting-notes", "csv-summary", "release-notes", "recipe-scaling",
    "unit-conversion", "letter-style", "photo-sorting", "log-triage", "travel-plan",
    "glossary-upkeep", "test-naming", "budget-review", "garden-calendar", "quote-lookup",
    "slide-outline", "api-changelog", "reading-list", "commit-messages", "data-cleaning",
)  # fmt: skip
SCRIPT = "import sys\nprint('lines:', sum(1 for _ in sys.stdin), *sys.argv[1:])\n"
SHELL = "#!/bin/sh\nwc -w\n"


def front_matter(number: int, name: str) -> str:
    """Return the YAML of one skill; quoting, optional fields and line ends differ."""
    about = (
        f"Help with {name.replace('-', ' ')}: use it when the user asks for that (case {number})."
    )
    lines = [f"name: {name}"]
    match number % 4:
        case 0:
            lines.append(f'description: "{about}"')
        case 1:
            lines += ["description: >-", f"  {about}", "  It has two lines."]
        case 2:
            lines.append(f"description: '{about}'")
        case _:
            lines += ["description: |", f"  {about}"]
    if number % 2:
        lines.append("license: Apache-2.0")
    if number % 3 == 0:
        lines.append("compatibility: Needs python3 and nothing else")
    if number % 5 == 0:
        lines += ["metadata:", "  author: somebody", "  version: 1.0", "  reviewed: 2026-01-02"]
    if number % 7 == 0:
        lines.append("allowed-tools: Read Grep Bash(python:*)")
    if number % 7 == 3:
        lines += ["allowed-tools:", "  - Read", "  - Write"]
    return "\n".join(("---", *lines, "---"))


def write_skill(top: Path, number: int = 0, name: str = "", body: str = "") -> Path:
    """Write one skill below `top` and return its folder."""
    name = name or TOPICS[number]
    folder = top / name
    folder.mkdir(parents=True)
    text = f"{front_matter(number, name)}\n{body or instructions(number, name)}"
    if number % 6 == 5:
        text = text.replace("\n", "\r\n")
    (folder / "SKILL.md").write_bytes(text.encode())
    if number % 2 == 0:
        (folder / "scripts").mkdir()
        (folder / "scripts/count.py").write_text(SCRIPT)
    if number % 4 == 1:
        (folder / "scripts").mkdir()
        (folder / "scripts/words").write_text(SHELL)
        (folder / "scripts/words").chmod(0o755)
    if number % 3 == 1:
        (folder / "references/deep").mkdir(parents=True)
        (folder / "references/RULES.md").write_text(
            f"# Rules\n\nRound to {number} digits. Größe: ½ ☕\n"
        )
        (folder / "references/deep/more.json").write_text('{"limit": 3}\n')
    if number % 5 == 2:
        (folder / "assets").mkdir()
        (folder / "assets/logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0" + bytes([number]))
    return folder


def instructions(number: int, name: str) -> str:
    """Return the Markdown of one skill."""
    steps = "\n".join(f"{n}. Step {n} of {name}." for n in range(1, 2 + number % 4))
    return f"# {name}\n\n{steps}\n\nSee references/RULES.md if it is there.\n"
