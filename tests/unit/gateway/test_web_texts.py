"""The words of the web page: names that the server gives have words in each language."""

import json
import re
from typing import get_args

from choir_common import errors
from choir_common.i18n import Message
from choir_common.wire.memory_search import MemoryQuery
from choir_common.wire.people_config import PersonRole
from choir_gateway.web.assets import STATIC
from choirctl.output.state_words import state_text
from scripts.vendor import ROOT

AUDITED = re.compile(
    r"(?:AuditRecord|_audit|_audit_read|_follow_up)\((?:[^()]|\([^()]*\))*?[^\[]\"([a-z ]+)\""
)


def catalogue(path: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads((STATIC / path).read_text())
    return texts


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
    # choirctl shows the same ones
    assert {it for it in operations if not isinstance(state_text(it), Message)} == set()
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
