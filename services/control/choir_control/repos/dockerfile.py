"""Find what is wrong with a Dockerfile without an engine: what no builder could read (spec 17.6). Pure.

Called by `contents`. Only the form is looked at; whether a command in it works, the build finds out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

KNOWN = frozenset(
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
HEREDOCS = ("RUN", "COPY", "ADD")
CHANGES = ("RUN", "COPY", "ADD", "ENV", "ONBUILD")
"""What makes an image another one than its base."""
LONGEST_SHOWN = 100
_ESCAPE = re.compile(r"^#\s*escape\s*=\s*([\\`])\s*$", re.IGNORECASE)
# BuildKit's: RUN <<EOF, COPY <<-"EOF" /there
_HEREDOC = re.compile(r"<<-?\s*([\"']?)[A-Za-z_][A-Za-z0-9_]*\1")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction with its continuation lines put together; `line` counts from one."""

    line: int
    word: str
    rest: str


class _Unfinished(Exception):
    """The file ends where it must go on."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


def dockerfile_fault(text: str) -> str | None:
    """Return what is wrong with a Dockerfile, naming the line; none for one that can be read."""
    began = False
    try:
        for found in _instructions(text):
            if found.word not in KNOWN:
                return f"line {found.line}: {found.word[:40]!r} is no instruction of a Dockerfile"
            if refused := _refused(found):
                return f"line {found.line}: {refused}"
            if not found.rest:
                return f"line {found.line}: {found.word} says nothing"
            began = began or found.word == "FROM"
            if not began and found.word != "ARG":
                return f"line {found.line}: must begin with FROM, not {found.word}"
    except _Unfinished as error:
        return str(error)
    return None if began else "must begin with FROM: there is no image it starts from"


def changes_in(text: str) -> list[str]:
    """Return the instructions of a readable Dockerfile that change an image, each with its line."""
    found = [each for each in _instructions(text) if each.word in CHANGES]
    return [f"line {each.line}: {each.word} {_short(each.rest)}" for each in found]


def _short(rest: str) -> str:
    flat = " ".join(rest.split())
    return flat if len(flat) <= LONGEST_SHOWN else f"{flat[:LONGEST_SHOWN]}…"


def _refused(found: Instruction) -> str | None:
    """Return why an instruction that could be read is not taken, none if it is.

    The engine itself would fetch what ADD names, from where it stands: beside the host's own services.
    Its classic builder knows no heredoc and would take the lines of one for instructions of their own.
    """
    words = [found.word]
    if found.word == "ONBUILD":
        words.append(found.rest.partition(" ")[0].upper())
    if "ADD" in words:
        return "ADD may fetch from where no build may reach: write COPY, or RUN with curl or tar"
    if "VOLUME" in words:
        return "VOLUME: an agent can write to /workspace and /tmp alone"
    if found.word in HEREDOCS and _HEREDOC.search(found.rest):
        return "a text begun with << is BuildKit's: write it into a file, and COPY that"
    return None


def _instructions(text: str) -> Iterator[Instruction]:
    lines = list(enumerate(text.removeprefix("\ufeff").splitlines(), 1))
    escape = next((m[1] for _, line in lines[:1] if (m := _ESCAPE.match(line))), "\\")
    rest = iter(lines)
    for number, line in rest:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole = _continued(number, line, rest, escape)
        word, _, arguments = whole.strip().partition(" ")
        yield Instruction(number, word.upper(), arguments.strip())


def _continued(number: int, line: str, rest: Iterator[tuple[int, str]], escape: str) -> str:
    parts = []
    while line.rstrip().endswith(escape):
        parts.append(line.rstrip()[:-1])
        try:
            line = next(following for _, following in rest if not _is_passed_over(following))
        except StopIteration:
            raise _Unfinished(number, f"ends with {escape!r} and nothing follows") from None
    return " ".join((*parts, line)).replace("\t", " ")


def _is_passed_over(line: str) -> bool:
    """Tell whether a builder skips this line inside an instruction."""
    return not line.strip() or line.lstrip().startswith("#")
