"""Documents for readers: anchors and commands exist, sentences are short, the site is whole."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from choir_common.wire.config import Config
from choirctl.app import COMMANDS, build_app
from scripts.docs.cli import cli_reference, command_tree, commands
from scripts.docs.drawings import DRAWINGS
from scripts.docs.events import event_reference
from scripts.docs.http_api import http_reference, openapi_document
from scripts.docs.pages import (
    GENERATED,
    SitePages,
    assets,
    foreign_requests,
    outside_code,
    rewrite_links,
)
from tests.support.documents import (
    ROOT,
    DocumentedCommand,
    anchors_of,
    commands_of,
    documents,
    ninetieth_percentile,
    sentence_lengths,
    sentences,
)
from tests.support.home import make_short_directory

MAX_WORDS = 25
ANCHORED_LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s#]*)#([^)\s]+)\)")
# Commands that a page shows though they do not exist, each with the reason.
NO_COMMANDS = {
    ("docs/demo/core-jobs.md", "session verify"): "a record, which leaves the id out",
    (
        "docs/mcp-server.md",
        "mcp serve main --method tools/call --tool-name ask --tool-arg message=hello",
    ): "the last options are those of the inspector, which starts the command",
}
ELLIPSES = ("...", "…")
GENERATED_TEXTS = {
    "docs/reference/cli.md": cli_reference,
    "docs/reference/http.md": http_reference,
    "docs/reference/events.md": event_reference,
}


def test_every_anchor_of_a_link_is_a_heading() -> None:
    dead = []
    for page in documents():
        text = outside_code(page.read_text(), lambda part: part)
        for target, anchor in ANCHORED_LINK.findall(text):
            if "://" in target:
                continue
            file = Path(os.path.normpath(page.parent / target)) if target else page
            if file.suffix == ".md" and anchor not in anchors_of(file.read_text()):
                dead.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert dead == []


def parse_command(call: DocumentedCommand) -> str:
    """Return what is wrong with a documented command, or an empty text; nothing is run."""
    words = [word for word in call.words if word not in ELLIPSES]
    if "--help" in words or words[:1] == ["--install-completion"]:
        return ""
    command: Any = command_tree()
    try:
        context = command.make_context("choirctl", words)
        while isinstance(command, TyperGroup) and context._protected_args:
            rest = [*context._protected_args, *context.args]
            name, command, rest = command.resolve_command(context, rest)
            context = command.make_context(name, rest, parent=context)
    except Exception as error:  # click's errors differ by what is wrong
        return f"{call.page}:{call.line}: choirctl {' '.join(call.words)}: {error}"
    return ""


def test_every_documented_command_exists_with_its_options() -> None:
    calls = [call for page in documents() for call in commands_of(page)]
    faults = [
        fault
        for call in calls
        if (call.page, " ".join(call.words)) not in NO_COMMANDS and (fault := parse_command(call))
    ]
    assert len(calls) > 250 and faults == []
    assert parse_command(DocumentedCommand("p", 1, ("status", "--colour")))
    assert parse_command(DocumentedCommand("p", 1, ("memory", "serch", "main", "x")))


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A directory in whose paths sockets fit."""
    made = make_short_directory("choir-docs-")
    yield made
    shutil.rmtree(made)


def test_every_setting_of_tutorials_and_short_pages_is_accepted(short_home: Path) -> None:
    runner, app = CliRunner(), build_app({entry.name for entry in COMMANDS})
    home = short_home / "home"

    def run(*words: str) -> str:
        done = runner.invoke(app, [*words, "--home", str(home)])
        return "" if done.exit_code == 0 else f"{done.exception!r} {done.output}"

    assert run("init") == ""
    fresh = (home / "config.json").read_text()
    pages = [
        page for name in ("tutorials", "how-to") for page in (ROOT / "docs" / name).glob("*.md")
    ]
    calls = [
        call
        for page in sorted(pages)
        for call in commands_of(page)
        if call.words[:2] in (("config", "set"), ("agent", "init"))
    ]
    assert len(calls) > 8
    for number, call in enumerate(calls):
        if number == 0 or call.page != calls[number - 1].page:
            (home / "config.json").write_text(fresh)
            # what `choirctl telegram connect` adds
            gateway = '{"type": "telegram", "secret": "telegram-token"}'
            assert run("config", "set", "gateways.telegram", gateway) == ""
        assert run(*call.words) == "", call
        Config.model_validate_json((home / "config.json").read_text())


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences_are_short(page: Path) -> None:
    lengths = sorted(sentence_lengths(page), reverse=True)
    longest = "\n".join(f"{count} words: {text}" for count, text in lengths[:10])
    assert ninetieth_percentile([count for count, _ in lengths]) <= MAX_WORDS, longest


def test_sentences_are_counted_as_a_reader_does() -> None:
    assert list(sentences("One, two; three: four. Is it (so)? No!")) == [
        "One, two; three: four.",
        "Is it (so)?",
        "No!",
    ]
    assert list(sentences("Use e.g. 2.5 or config.json now.")) == [
        "Use e.g. 2.5 or config.json now."
    ]


def test_the_site_has_every_page_and_its_links_stay_inside() -> None:
    pages = SitePages.load()
    guides = {path.relative_to(ROOT).as_posix() for path in documents()}
    left_out = {path for path in guides - set(pages.targets) if not path.startswith("docs/")}
    assert {path for path in left_out if path.startswith("examples/")} == set()
    assert guides - left_out <= set(pages.targets)
    assert len(set(pages.targets.values())) == len(pages.targets)
    places = {*pages.targets.values(), *assets().values()}
    for source, target in pages.targets.items():
        if source in GENERATED:
            continue
        assert (ROOT / source).is_file(), source
        text = rewrite_links((ROOT / source).read_text(), source=source, pages=pages)
        found: list[str] = []
        outside_code(
            text, lambda part, to=found: to.extend(re.findall(r"\]\(([^)\s#]+)", part)) or part
        )
        for link in found:
            place = os.path.normpath(Path(target).parent / link)
            assert re.match(r"[a-z]+:", link) or place in places, f"{source}: {link}"


def test_links_are_rewritten_to_the_places_of_the_site() -> None:
    pages = SitePages.load()

    def of(text: str) -> str:
        return rewrite_links(text, source="docs/tools.md", pages=pages)

    assert of("[a](../services/agent/README.md#x)") == "[a](development/services/agent.md#x)"
    assert of("[start](start/index.md), `[b](c.md)`") == "[start](index.md), `[b](c.md)`"
    assert of("[licence](../LICENSE) [c](https://x.example)") == "licence [c](https://x.example)"


def test_a_page_that_loads_from_another_server_is_named() -> None:
    page = '<link rel="canonical" href="https://a.example/"><a href="https://b.example">b</a>'
    assert foreign_requests(page) == []
    assert foreign_requests(f'{page}<script async src="https://c.example/x.js"></script>') == [
        "https://c.example/x.js"
    ]


def test_references_are_made_of_the_program() -> None:
    texts = {path: make() for path, make in GENERATED_TEXTS.items()}
    assert set(texts) == GENERATED
    headings = set(re.findall(r"^## choirctl (.+)$", texts["docs/reference/cli.md"], re.MULTILINE))
    assert headings == {name for name, _ in commands()} and len(headings) > len(COMMANDS)
    document = openapi_document()
    assert all(f" {path}`" in texts["docs/reference/http.md"] for path in document["paths"])
    assert "## tool_call_committed" in texts["docs/reference/events.md"]


def test_drawings_are_those_of_the_script() -> None:
    remake = "write them again: python -m scripts.docs drawings"
    for name, drawing in DRAWINGS.items():
        assert (ROOT / f"docs/concepts/{name}.svg").read_text() == drawing().render(), remake
