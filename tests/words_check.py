"""Check of words: plain English in prose, standard names in product code. Exits 1 on a fault.

Run by `make check`. The words and the standard form of each stand in `tests/words.toml`. SQL migrations are
not read, because applied ones never change.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("deploy", "docs", "examples", "libs", "scripts", "services", "tests")
AIM_PERCENT = 0.3
PRODUCT = re.compile(r"^(libs|services|deploy)/(?!choir_testing/)[a-z_]+/choir")
NAME_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
CODE_SPAN = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class WordRules:
    """The rules of `tests/words.toml`."""

    prose: dict[str, str]
    names: dict[str, str]
    foreign_names: frozenset[str]
    participles: frozenset[str]
    participle_ceiling: int
    banned_ceiling: int
    exempt: list[str]

    @classmethod
    def load(cls, path: Path = ROOT / "tests/words.toml") -> "WordRules":
        """Read the rules from a file."""
        data = tomllib.loads(path.read_text())
        return cls(
            prose=data["prose"],
            names=data["names"],
            foreign_names=frozenset(data["foreign_names"]["allowed"]),
            participles=frozenset(data["bindings"]["participles"]),
            participle_ceiling=data["bindings"]["participle_ceiling"],
            banned_ceiling=data["bindings"]["banned_ceiling"],
            exempt=data["exempt"]["files"],
        )

    @cached_property
    def phrases(self) -> re.Pattern[str]:
        """One pattern with a group for each row of `prose`; a phrase may continue on the next line."""
        rows = "|".join(f"({key})" for key in self.prose)
        return re.compile(rf"\b(?:{rows})\b".replace(" ", r"\s+(?:#\s*)?"))

    def find_phrases(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield the line, the words and the standard form of each banned phrase in a text."""
        forms = list(self.prose.values())
        for match in self.phrases.finditer(text.lower()):
            line = text.count("\n", 0, match.start()) + 1
            yield line, " ".join(match.group(0).split()), forms[(match.lastindex or 1) - 1]

    def banned_word(self, name: str) -> str | None:
        """Return the first word of a name that is banned, or None."""
        if name in self.foreign_names:
            return None
        words = (word.lower() for word in NAME_WORD.findall(name))
        return next((word for word in words if word in self.names), None)


def extract_prose(text: str) -> str:
    """Return the docstrings and comments of a module, each on its line, everything else blank."""
    lines = text.split("\n")
    prose = [""] * len(lines)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                last = node.end_lineno or node.lineno
                prose[node.lineno - 1 : last] = lines[node.lineno - 1 : last]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            prose[token.start[0] - 1] = token.string
    return "\n".join(prose)


def check_prose(place: str, text: str, rules: WordRules) -> Iterator[str]:
    """Yield the banned phrases in the prose of a Python or Markdown file."""
    if not any(rules.find_phrases(text)):
        return  # only a file with a hit is parsed: this keeps the whole tree under three seconds
    prose = extract_prose(text) if place.endswith(".py") else text
    for line, phrase, form in rules.find_phrases(CODE_SPAN.sub("", prose)):
        yield f'{place}:{line}: "{phrase}": {form}'


@dataclass(slots=True)
class BoundNames:
    """The names that the product's modules define, each with its place."""

    definitions: list[tuple[str, str]] = field(default_factory=list)
    variables: list[tuple[str, str]] = field(default_factory=list)

    def collect(self, file: str, tree: ast.Module) -> None:
        """Add the classes, functions, variables, parameters and attributes of a module."""
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    self.variables.append((f"{file}:{node.lineno}", name))
                case ast.arg(arg=name) if name not in ("self", "cls"):
                    self.variables.append((f"{file}:{node.lineno}", name))
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                    self.variables.append((f"{file}:{node.lineno}", name))
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    self.definitions.append((f"{file}:{node.lineno}", name))
                case ast.AsyncFunctionDef(name=name):
                    self.definitions.append((f"{file}:{node.lineno}", name))


def list_files(rules: WordRules) -> list[str]:
    """Return the Python and Markdown files that are not exempt."""
    paths = [
        *ROOT.glob("*.md"),
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")),
    ]
    files = sorted(str(path.relative_to(ROOT)) for path in paths if path.suffix in (".py", ".md"))
    return [file for file in files if not any(fnmatch(file, glob) for glob in rules.exempt)]


def check_names(names: BoundNames, rules: WordRules, list_all: bool = False) -> Iterator[str]:
    """Yield banned definitions, and the variables of each kind that exceeds its ceiling."""
    for place, name in names.definitions:
        if word := rules.banned_word(name):
            yield f'{place}: "{name}": {rules.names[word]}'
    variables = names.variables
    participles = [
        f'{place}: "{name}": write a noun'
        for place, name in variables
        if name.strip("_") in rules.participles
    ]
    banned = [
        f'{place}: "{name}": {rules.names[word]}'
        for place, name in variables
        if (word := rules.banned_word(name))
    ]
    percent = 100 * len(participles) / max(1, len(variables))
    print(
        f"words: {len(participles)} of {len(variables)} bindings are participles ({percent:.2f} %, "
        f"aim {AIM_PERCENT} %; ceiling {rules.participle_ceiling}), "
        f"{len(banned)} contain a banned word (ceiling {rules.banned_ceiling})"
    )
    for faults, ceiling in (
        (participles, rules.participle_ceiling),
        (banned, rules.banned_ceiling),
    ):
        if list_all:
            yield from faults
        elif len(faults) > ceiling:
            yield f"{len(faults)} variables above the ceiling {ceiling}, such as: {faults[-1]}"
            yield "`tests/words_check.py --list` prints all"


def main() -> int:
    """Print the figures and every fault (`--list`: all variables, too); return the exit code."""
    rules = WordRules.load()
    faults: list[str] = []
    names = BoundNames()
    for file in list_files(rules):
        text = (ROOT / file).read_text()
        faults += check_prose(file, text, rules)
        if PRODUCT.match(file) and file.endswith(".py"):
            names.collect(file, ast.parse(text))
    faults += check_names(names, rules, list_all="--list" in sys.argv)
    for fault in faults:
        print(f"words: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
