"""The maintainers' documents name files, modules, classes and functions that exist."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.shape_check import PACKAGES, ROOT
from tests.words_check import FOLDERS

PAGES = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/memory-abilities.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("de[sv][ei]*/*.md"))),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "libs").glob("*/README.md"))),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "services").glob("*/README.md"))),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "deploy").glob("*/README.md"))),
]
# CamelCase names of Python, of libraries and of standards.
FOREIGN_NAMES = frozenset({"Dockerfile", "RetryInfo", "UndefinedColumnError"})
# Files that Choir makes or reads at run time, and one that a page tells the reader to add.
RUNTIME_FILES = frozenset(
    {
        "config.json",
        "current.json",
        "secrets.json",
        "audit-keys.json",
        "version.json",
        "SOUL.md",
        "USER.md",
        "proposed/tools/",
        "socks/choird.sock",
        "spool/console",
        "data/model.json",
        "run/stack.lock",
        "socks/agents/",
        "00NN_name.sql",
    }
)

EXAMPLE = "threema"  # the channel that docs/development/add-a-channel.md adds

LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BRACES = re.compile(r"^(.*)\{([^{}]+)\}(.*)$")
FILE_PATH = re.compile(r"^[\w./-]+\.(py|md|sql|json|yaml|yml|toml)$|^[\w.-]+(/[\w.-]+)+/?$")
DOTTED = re.compile(r"^(choir(?:ctl|_\w+)|tests)(\.\w+)+$")
CLASS_MEMBER = re.compile(r"^_?[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)*(\.\w+)?(\(.*\))?$")
FUNCTION = re.compile(r"^([a-z_][a-z0-9_]*)\(.*\)$")


def expand(text: str) -> Iterator[str]:
    """Yield `a/b.py` and `a/c.py` for `a/{b,c}.py`."""
    match = BRACES.match(text)
    if not match:
        yield text
        return
    for part in match.group(2).split(","):
        yield from expand(f"{match.group(1)}{part.strip()}{match.group(3)}")


@cache
def path_ends() -> frozenset[str]:
    """Return every path of the repository, and each shorter end of it."""
    files = [
        *ROOT.glob("*"),
        *(file for folder in (*FOLDERS, ".ci") for file in (ROOT / folder).rglob("*")),
    ]
    ends = set()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:  # empty folders are leftovers
            parts = file.relative_to(ROOT).parts
            for stop in range(1, len(parts) + 1):
                ends |= {"/".join(parts[start:stop]) for start in range(stop)}
    return frozenset(ends)


@cache
def definitions(service: str | None) -> dict[str, set[str]]:
    """Return every name that a service and the shared libraries define, with the members of each class.

    Without a service: the names of all of them.
    """
    names: dict[str, set[str]] = {}
    for folder in PACKAGES.values():
        if service and folder.startswith("services/") and folder != service:
            continue
        for name, inner in names_in(folder).items():
            names.setdefault(name, set()).update(inner)
    return names


@cache
def names_in(folder: str) -> dict[str, set[str]]:
    """Return every name that the modules of a folder define, with the members of each class."""
    names: dict[str, set[str]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ClassDef(name=name):
                    names.setdefault(name, set()).update(members(node))
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.setdefault(name, set())
                case ast.Name(id=name, ctx=ast.Store()):
                    names.setdefault(name, set())
    return names


def members(node: ast.ClassDef) -> Iterator[str]:
    """Yield the methods, fields and attributes of a class."""
    for child in ast.walk(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def path_exists(text: str) -> bool:
    """Return whether the repository has a path that ends with `text`, as it stands or as a module."""
    text = text.removeprefix("../").strip("/")
    return text in path_ends() or f"{text}.py" in path_ends()


def dotted_exists(text: str) -> bool:
    """Return whether a dotted name is a module, or a name that its module defines or imports."""
    parts = text.split(".")
    folder = ROOT if parts[0] == "tests" else ROOT / PACKAGES[parts[0]]
    for end in range(len(parts), 0, -1):
        base = folder.joinpath(*parts[:end])
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.exists():
                rest = parts[end:]
                return not rest or bool(re.search(rf"\b{rest[0]}\b", file.read_text()))
    return False


def class_exists(text: str, names: dict[str, set[str]]) -> bool:
    """Return whether `Name`, `Name.member` or `Name(...)` is defined."""
    name, _, member = text.partition("(")[0].partition(".")
    if name in FOREIGN_NAMES or hasattr(builtins, name):
        return True
    return name in names and (not member or member in names[name])


def find_dead_names(page: str) -> Iterator[str]:
    """Yield each name of a page that does not exist."""
    folder = page.removesuffix("/README.md")
    names = definitions(folder if folder in PACKAGES.values() else None)
    text = FENCE.sub(lambda fence: "\n" * fence.group(0).count("\n"), (ROOT / page).read_text())
    for span in CODE_SPAN.finditer(text):
        line = text.count("\n", 0, span.start()) + 1
        for name in expand(span.group(1)):
            if "<" in name and "/" in name:  # `commands/<topic>.py`: the folder exists
                name = name.partition("<")[0].rpartition("/")[0] + "/"
            match name:
                case _ if DOTTED.match(name) and name not in path_ends():
                    exists = dotted_exists(name)
                case _ if name.startswith(("/", "$", "~", ".choir")) or "://" in name:
                    continue
                case _ if name in RUNTIME_FILES or EXAMPLE in name:
                    continue
                case _ if FILE_PATH.match(name.partition("::")[0]):
                    exists = path_exists(name.partition("::")[0])
                case _ if CLASS_MEMBER.match(name):
                    exists = class_exists(name, names)
                case _ if FUNCTION.match(name):
                    exists = name.partition("(")[0] in names
                case _:
                    continue
            if not exists:
                yield f"{page}:{line}: `{name}`"


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_a_document_exists(page: str) -> None:
    assert list(find_dead_names(page)) == []


def test_every_link_between_documents_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/*/README.md")]
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(CODE_SPAN.sub("", FENCE.sub("", page.read_text())))
        if "://" not in target and not target.startswith("mailto:")
        if not (page.parent / target).exists()
    ]
    assert len(pages) > 100 and dead == []
