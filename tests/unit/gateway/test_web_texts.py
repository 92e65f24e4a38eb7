"""The words of the web page: what the server says is translated, and names of the server have words."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from choir_common import errors
from choir_common.wire.memory_search import MemoryQuery
from choir_common.wire.people_config import PersonRole
from choir_gateway.web.assets import STATIC
from scripts.vendor import ROOT

SOURCES = ("services/control", "services/gateway", "services/memory", "libs/choir_common")
VALUE = re.compile(r"\{\w+(?:![rs])?(?::[^{}]*)?\}")
AUDITED = re.compile(
    r"(?:AuditRecord|_audit|_audit_read|_follow_up)\((?:[^()]|\([^()]*\))*?[^\[]\"([a-z ]+)\""
)


def catalogue(path: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads((STATIC / path).read_text())
    return texts


def templates(path: Path) -> Iterator[str]:
    """Yield the texts of a module, with `{}` for each value."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = [it.value if isinstance(it, ast.Constant) else "{}" for it in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def server_texts() -> str:
    files = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    return VALUE.sub("{}", "\n".join(text for path in files for text in templates(path)))


def test_each_translated_sentence_is_one_that_the_server_says(server_texts: str) -> None:
    sentences = catalogue("problems/de.json")
    assert list(sentences) == sorted(sentences) and len(sentences) > 100
    for english, german in sentences.items():
        assert VALUE.sub("{}", english) in server_texts, f"No service says: {english}"
        names = set(VALUE.findall(english))
        assert set(VALUE.findall(german)) <= names, english
        assert len(names) == len(VALUE.findall(english)), f"A value has two places: {english}"


def test_each_kind_of_error_has_words_for_details_that_nobody_translated() -> None:
    codes = {
        it.code
        for it in vars(errors).values()
        if isinstance(it, type) and issubclass(it, errors.ChoirError)
    }
    # a page never asks a process that has not started
    assert {f"problem.{code}" for code in codes - {"startup"}} <= set(catalogue("locales/de.json"))


def test_names_that_the_server_gives_have_words_in_each_language() -> None:
    modules = (ROOT / "services/memory/choir_memory").rglob("*.py")
    operations = {name for path in modules for name in AUDITED.findall(path.read_text())}
    assert {"add document", "erase session", "forgotten"} <= operations
    modes = get_args(MemoryQuery.model_fields["mode"].annotation)
    for language in ("en", "de"):
        texts = catalogue(f"locales/{language}.json")
        assert {f"person.role.{it}" for it in get_args(PersonRole)} <= set(texts)
        assert {f"memory.operation.{it.replace(' ', '_')}" for it in operations} <= set(texts)
        assert {f"memory.mode.{it}" for it in modes} <= set(texts)


def test_german_texts_are_not_the_english_ones() -> None:
    """Words that are the same in both languages are short; a sentence that is equal was forgotten."""
    english, german = catalogue("locales/en.json"), catalogue("locales/de.json")
    same = [key for key, text in english.items() if german[key] == text and text.count(" ") >= 2]
    assert same == ["memory.filter.origins.hint"]  # names that a search takes
