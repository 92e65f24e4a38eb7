"""GLOSSARY.md has the words that class names of several services share; class names are unique."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.shape_check import PACKAGES as ALL_PACKAGES
from tests.shape_check import ROOT

PACKAGES = {
    package: folder for package, folder in ALL_PACKAGES.items() if package != "choir_testing"
}

# Ordinary adjectives and verbs in class names; none of them is a term.
ORDINARY_WORDS = frozenset(
    {
        "build",
        "built",
        "cancel",
        "check",
        "close",
        "current",
        "erased",
        "export",
        "failed",
        "find",
        "import",
        "large",
        "inject",
        "invalid",
        "list",
        "new",
        "open",
        "outgoing",
        "pending",
        "put",
        "read",
        "ready",
        "received",
        "running",
        "safe",
        "sent",
        "show",
        "start",
        "stored",
        "text",
        "too",
        "typed",
        "update",
        "write",
    }
)
# "package class" of names that occur twice, each with its reason.
DUPLICATES: dict[str, str] = {}

CAMEL_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]+|[A-Z]+")


def class_names(package: str) -> Iterator[str]:
    """Yield the name of each class of a package, also of nested ones."""
    for path in (ROOT / PACKAGES[package]).glob("choir*/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name


def singular(word: str) -> str:
    """Return the singular of a word in lower case."""
    lower = word.lower()
    if lower.endswith(("ss", "us", "is")) or lower in (
        "bindings",
        "metrics",
        "settings",
        "dependencies",
    ):
        return lower
    if lower.endswith("ies"):
        return f"{lower[:-3]}y"
    if lower.endswith(("ches", "xes", "sses")):
        return lower[:-2]
    return lower.removesuffix("s")


def shared_words() -> tuple[set[str], set[str]]:
    """Return the last words of public classes in two packages, and the other words in at least three."""
    last: dict[str, set[str]] = defaultdict(set)
    other: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for name in class_names(package):
            words = [singular(word) for word in CAMEL_WORD.findall(name)]
            if not name.startswith("_"):
                last[words[-1]].add(package)
                for word in words[:-1]:
                    other[word].add(package)
    suffixes = {word for word, packages in last.items() if len(packages) > 1}
    nouns = {word for word, packages in other.items() if len(packages) > 2}
    return suffixes - ORDINARY_WORDS, nouns - ORDINARY_WORDS


def glossary_terms() -> list[str]:
    """Return the terms of GLOSSARY.md in their order."""
    return re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "GLOSSARY.md").read_text(), re.MULTILINE)


def test_the_last_word_of_class_names_of_several_services_is_in_the_glossary() -> None:
    suffixes, _ = shared_words()
    terms = {singular(term) for term in glossary_terms()}
    assert sorted(suffixes - terms) == [], "add a row to GLOSSARY.md, or use a word it has"


def test_a_noun_in_class_names_of_three_services_is_in_the_glossary() -> None:
    _, nouns = shared_words()
    words = {singular(word) for term in glossary_terms() for word in re.findall(r"[A-Za-z]+", term)}
    assert sorted(nouns - words) == [], "add a row to GLOSSARY.md, or use a word it has"


def test_a_term_has_one_row_and_rows_are_sorted() -> None:
    text = (ROOT / "GLOSSARY.md").read_text()
    for section in text.split("\n## "):
        terms = re.findall(r"^\| \*\*(.+?)\*\*", section, re.MULTILINE)
        assert terms == sorted(terms, key=str.casefold)
    assert [
        term for term, count in Counter(map(str.lower, glossary_terms())).items() if count > 1
    ] == []


def test_a_class_name_occurs_once_in_a_service() -> None:
    twice = {
        f"{package} {name}"
        for package in PACKAGES
        for name, count in Counter(class_names(package)).items()
        if count > 1
    }
    assert sorted(twice - set(DUPLICATES)) == [], "rename one of the two classes"
    assert sorted(set(DUPLICATES) - twice) == [], "remove the exemption, the name is unique"
