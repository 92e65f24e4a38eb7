"""Syntax checks of a Dockerfile without an engine. Pure.

Only the syntax is checked; whether a command works shows in the build.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

INSTRUCTIONS = frozenset(
    (
        *(
            "ADD",
            "ARG",
            "CMD",
            "COPY",
            "ENTRYPOINT",
            "ENV",
            "EXPOSE",
            "FROM",
            "HEALTHCHECK",
            "LABEL",
        ),
        *("MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
HEREDOC_INSTRUCTIONS = ("RUN", "COPY", "ADD")
IMAGE_CHANGING_INSTRUCTIONS = ("RUN", "COPY", "ADD", "ENV", "ONBUILD")
"""Instructions that change the image compared to its base."""
MAX_SHOWN_CHARS = 100
_ESCAPE = re.compile(r"^#\s*escape\s*=\s*([\\`])\s*$", re.IGNORECASE)
# BuildKit syntax: RUN <<EOF, COPY <<-"EOF" /there
_HEREDOC = re.compile(r"<<-?\s*([\"']?)[A-Za-z_][A-Za-z0-9_]*\1")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction with its continuation lines joined; `line` counts from one."""

    line: int
    name: str
    arguments: str


class _UnexpectedEnd(Exception):
    """The file ends inside an instruction."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


def find_dockerfile_fault(text: str) -> str | None:
    """Return the first fault of a Dockerfile with its line, or None for a valid one."""
    began = False
    try:
        for instruction in _instructions(text):
            if instruction.name not in INSTRUCTIONS:
                return f"line {instruction.line}: {instruction.name[:40]!r} is not a Dockerfile instruction"
            if fault := _refused(instruction):
                return f"line {instruction.line}: {fault}"
            if not instruction.arguments:
                return f"line {instruction.line}: {instruction.name} has no arguments"
            began = began or instruction.name == "FROM"
            if not began and instruction.name != "ARG":
                return f"line {instruction.line}: must begin with FROM, not {instruction.name}"
    except _UnexpectedEnd as error:
        return str(error)
    return None if began else "must begin with FROM: it names no base image"


def list_image_changes(text: str) -> list[str]:
    """Return the instructions of a valid Dockerfile that change the image, each with its line."""
    instructions = [
        instruction
        for instruction in _instructions(text)
        if instruction.name in IMAGE_CHANGING_INSTRUCTIONS
    ]
    return [
        f"line {instruction.line}: {instruction.name} {_short(instruction.arguments)}"
        for instruction in instructions
    ]


def _short(rest: str) -> str:
    flat = " ".join(rest.split())
    return flat if len(flat) <= MAX_SHOWN_CHARS else f"{flat[:MAX_SHOWN_CHARS]}…"


def _refused(instruction: Instruction) -> str | None:
    """Return why a valid instruction is refused, or None.

    ADD is refused because the engine itself would fetch its sources, with access to the host's own
    services. Heredocs are refused because the engine's classic builder would parse their lines as
    instructions.
    """
    names = [instruction.name]
    # ONBUILD wraps an instruction, which is checked as well
    if instruction.name == "ONBUILD":
        names.append(instruction.arguments.partition(" ")[0].upper())
    if "ADD" in names:
        return (
            "ADD is not allowed, because the engine would fetch: use COPY, or RUN with curl or tar"
        )
    if "VOLUME" in names:
        return "VOLUME is not allowed: agents write only to /workspace and /tmp"
    if instruction.name in HEREDOC_INSTRUCTIONS and _HEREDOC.search(instruction.arguments):
        return "heredocs need BuildKit: put the text into a file and COPY it"
    return None


def _instructions(text: str) -> Iterator[Instruction]:
    lines = list(enumerate(text.removeprefix("\ufeff").splitlines(), 1))
    escape = next((m[1] for _, line in lines[:1] if (m := _ESCAPE.match(line))), "\\")
    rest = iter(lines)
    for number, line in rest:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        instruction = _continued(number, line, rest, escape)
        word, _, arguments = instruction.strip().partition(" ")
        yield Instruction(number, word.upper(), arguments.strip())


def _continued(number: int, line: str, rest: Iterator[tuple[int, str]], escape: str) -> str:
    parts = []
    while line.rstrip().endswith(escape):
        parts.append(line.rstrip()[:-1])
        try:
            line = next(following for _, following in rest if not _is_passed_over(following))
        except StopIteration:
            raise _UnexpectedEnd(number, f"ends with {escape!r}, but no line follows") from None
    return " ".join((*parts, line)).replace("\t", " ")


def _is_passed_over(line: str) -> bool:
    """Return whether a builder ignores this line inside an instruction (blank or comment)."""
    return not line.strip() or line.lstrip().startswith("#")
