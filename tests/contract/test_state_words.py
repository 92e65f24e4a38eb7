"""Every state, kind and category of the wire has a text for people, in each language."""

import importlib
import inspect
import json
import pkgutil
import re
from types import ModuleType
from typing import Literal, get_args, get_origin

import pytest

from choir_common import wire
from choir_common.i18n import ENGLISH, LANGUAGES, Message, catalogue_texts, load_catalogue
from choir_gateway.web.assets import STATIC
from choir_local import stack_state
from choirctl.commands import mcp_import
from choirctl.output.state_words import state_text
from choirctl.start import health, installed_skills

NAME = re.compile(
    r"(State|Status|Outcome|Phase|Decision)$"
    r"|^(Category|ChangeKind|Kind|Tier|Grain|Origin|ScheduleKind|TimingKind|Overlap|CatchUp|MemoryMode"
    r"|TriggerType|TriggerKind|UsageKind|Store)$"
)
LEAST = 140
"""Fewer values would mean that the types are not found any more."""
PAGE_WORDS = re.compile(
    r"(approvals\.state|cost\.run|log\.outcome|log\.status|memory\.grain|memory\.kind"
    r"|memory\.status|now\.agent|now\.state|setup\.outcome|setup\.state)\.\w+$"
    r"|cost\.schedule\.(active|ended|paused)$"
)
"""Keys of the page's texts for states and kinds."""
LEAST_ON_PAGE = 35
MODULES: tuple[ModuleType, ...] = (
    stack_state,
    mcp_import,
    health,
    installed_skills,
    *(
        importlib.import_module(f"{wire.__name__}.{it.name}")
        for it in pkgutil.iter_modules(wire.__path__)
    ),
)
VALUES = {
    (f"{module.__name__.rpartition('.')[2]}.{name}", value)
    for module in MODULES
    for name, alias in inspect.getmembers(module)
    if NAME.search(name) and get_origin(alias) is Literal
    for value in get_args(alias)
}


def test_the_types_are_found() -> None:
    assert len(VALUES) >= LEAST
    assert {("messages.AgentState", "running"), ("operator.ApprovalState", "rolled_back")} <= VALUES


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {ENGLISH}))
def test_each_state_is_a_message_with_a_translation(language: str) -> None:
    catalogue = load_catalogue(language)._catalog  # type: ignore[attr-defined]
    missing = {
        f"{place}: {value}"
        for place, value in VALUES
        if not isinstance(state_text(value), Message) or str(state_text(value)) not in catalogue
    }
    assert missing == set()


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {ENGLISH}))
def test_the_page_says_the_same_word_as_choirctl(language: str) -> None:
    """Two words for one state, such as "stopped", look like two states."""
    english, translated = (
        json.loads((STATIC / f"locales/{it}.json").read_text()) for it in (ENGLISH, language)
    )
    catalogue = {name.lower(): text for name, text in catalogue_texts(language)}
    same = {
        key: (translated[key].lower(), catalogue[word.lower()].lower())
        for key, word in english.items()
        if PAGE_WORDS.match(key) and word.lower() in catalogue
    }
    assert len(same) >= LEAST_ON_PAGE
    assert {key: words for key, words in same.items() if words[0] != words[1]} == {}


def test_english_is_the_wires_word_without_underscores_and_an_unknown_one_stays() -> None:
    assert {state_text(value) == value.replace("_", " ") for _, value in VALUES} == {True}
    assert state_text("of_a_newer_version") == "of a newer version"
