"""Messages to people: each is in the catalogue of each language, with the same fields."""

import ast
import functools
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from choir_common.i18n import LANGUAGES, load_catalogue
from choir_control.agents.operations.service import KINDS
from scripts.translations import (
    ROOT,
    CatalogueFiles,
    catalogue_files,
    collect,
    find_faults,
    render_mo,
    render_po,
    update,
)
from tests.support.sentences import bare_sentences

CONTROL = ROOT / "services/control/choir_control"
# where the words of chats and the faults of configurations are; a new module of texts belongs here
TEXT_MODULES = (
    *sorted((CONTROL / "conversations/commands").glob("*.py")),
    CONTROL / "agents/sessions/closing.py",
    CONTROL / "agents/sessions/crash_handling.py",
    CONTROL / "agents/sessions/memory_modes.py",
    CONTROL / "agents/sessions/workspace_usage.py",
    CONTROL / "approvals/buttons.py",
    CONTROL / "approvals/nonce.py",
    CONTROL / "approvals/texts.py",
    *(
        CONTROL / f"configuration/{name}.py"
        for name in ("agent_questions", "groups", "mailboxes", "pairing", "parsing", "validation")
    ),
    CONTROL / "conversations/inbox/service.py",
    CONTROL / "conversations/pairing/texts.py",
    CONTROL / "conversations/schedules/texts.py",
    CONTROL / "money/budget_texts.py",
)
CHOIRCTL = ROOT / "libs/choirctl/choirctl"
CHOIRCTL_MODULES = tuple(
    path
    for folder in (CHOIRCTL, ROOT / "libs/choir_client/choir_client/_async")
    for path in sorted(folder.rglob("*.py"))
    # examples of commands, programs of new tools, and units of systemd
    if path.name not in {"examples.py", "tool_templates.py", "unit_files.py"}
)
"""choirctl, and what raises its errors."""
GATEWAY = ROOT / "services/gateway/choir_gateway/channels"
GATEWAY_MODULES = tuple(
    GATEWAY / name
    for name in (
        "choices.py",
        "labels.py",
        "email/choices.py",
        "email/answers.py",
        "matrix/encryption.py",
    )
)
NOT_MESSAGES = {
    # for programs and logs
    "An update_id may not hold a NUL character.",
    "The message is empty.",
    "Another message was accepted under this idempotency key before. This one was not stored; send it under "
    "a key of its own.",
    "The same message is being stored elsewhere; try again.",
    "Session {} keeps changing while it is being closed; try again.",
    "There is no DM {} on gateway {}.",
    # end reasons of sessions and deciders, which are stored
    "a real model replaces the rehearsal",
    "agent cannot be started",
    "it is no longer in the configuration",
    "its workspace, model or conversation is no longer assigned to it in config.json",
    "end of its call",
    # for the agent's model
    "; this run was due at {}",
    "schedule {}, {}, created by {}{}",
    "the user",
    # the meanings of a result
    "It is a message for the agent.",
    "It needs no more than its note.",
    # commands, and the beginning of a text that is taken apart
    "choirctl agent start {}",
    "once at ",
}
NO_WORDS_OF_CHOIRCTL = {
    # commands, SQL, styles, and the files of a new agent
    "FROM choir-base\n# RUN apt-get update && apt-get install -y --no-install-recommends ...\n",
    "# {agent}\n\nWho {agent} is when it talks: tone, habits, what it cares for.\n",
    "# {agent} at work\n\nHow {agent} works on its own: how careful, how far.\n",
    "PRAGMA table_info(transcript_events)",
    "PRAGMA trusted_schema = OFF",
    "choirctl agent build {}",
    "choirctl agent start {}",
    "choirctl agent update {}",
    "choirctl chat --agent {}",
    "choirctl config apply",
    "choirctl config load",
    "choirctl import {}: job {}",
    "choirctl mcp login --private-host",
    "choirctl schedule add {} --{} {} {}",
    "choirctl schedule update {} {}",
    "choirctl telegram connect",
    "choirctl tool check {} {}",
    "choirctl tool try {} {}",
    "choirctl up",
    "choirctl up --detach",
    "docker compose up --wait",
    "`docker compose logs backups`",
    "noreverse fg:ansibrightblack",
    'ulimit -f {} && exec git "$@"',
    "[bold green]{}[/]",
    "[dim magenta]· {}[/]",
    # values of JSON, keys of tables, and names of imported records
    "Choir itself",
    "custom instructions/{}",
    "in repository",
    "left out",
    "no summary",
    "not approved",
    "the file",
}


@pytest.mark.parametrize("files", catalogue_files(), ids=lambda files: files.language)
def test_each_message_is_translated_and_its_catalogue_is_compiled(files: CatalogueFiles) -> None:
    catalogue = update(files, template())
    assert list(find_faults(catalogue)) == []
    advice = "run `python -m scripts.translations`"
    assert files.po.read_bytes() == render_po(catalogue), advice
    assert files.mo.read_bytes() == render_mo(catalogue), advice
    assert load_catalogue(files.language).gettext("Approved.") != "Approved."


@functools.cache
def template() -> Catalog:
    """Return the messages of the sources; not at the import, which every worker does."""
    return collect()


def test_a_message_that_lacks_a_translation_or_a_field_is_found() -> None:
    files = catalogue_files()[0]
    catalogue = update(files, template())
    catalogue.get("{agent} has stopped.").string = "Jemand ist gestoppt."
    catalogue.get("Approved.").string = ""
    assert sorted(find_faults(catalogue)) == [
        "not translated: Approved.",
        "other fields than in English: Jemand ist gestoppt.",
    ]


def test_each_language_has_a_catalogue() -> None:
    assert {it.language for it in catalogue_files()} == set(LANGUAGES) - {"en"}


@pytest.mark.parametrize("path", TEXT_MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_people_read_in_a_chat_or_of_a_configuration_is_a_message(path: Path) -> None:
    """A sentence that is no message would stay English, whatever the language of the conversation."""
    assert set(bare_sentences(ast.parse(path.read_text()))) <= NOT_MESSAGES | set(KINDS)


@pytest.mark.parametrize(
    "path", CHOIRCTL_MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_what_choirctl_says_is_a_message(path: Path) -> None:
    """Help texts need no mark: the catalogue has all help of all commands."""
    assert set(bare_sentences(ast.parse(path.read_text()))) <= NO_WORDS_OF_CHOIRCTL


@pytest.mark.parametrize(
    "path", GATEWAY_MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_what_a_channel_adds_is_a_message(path: Path) -> None:
    """It stands beside the agent's words, in the language of the conversation."""
    assert set(bare_sentences(ast.parse(path.read_text()))) <= NOT_MESSAGES
