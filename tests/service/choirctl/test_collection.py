"""`choirctl collection` on a whole Choir: bring documents, find them, take them away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

pytestmark = pytest.mark.timeout(600)

MANUAL = "# Boiler\n## Pressure\nKeep it between 1 and 2 bar.\n## Bleeding\nOpen the valve.\n"


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as running:
        yield running


@pytest.fixture
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


def test_documents_are_brought_listed_and_erased_after_a_question(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    manual, notes = tmp_path / "boiler.md", tmp_path / "notes.txt"
    manual.write_text(MANUAL)
    notes.write_text("The filter is changed in spring.")
    (added, also) = shell.data("collection", "add", "main", "house", str(manual), str(notes))
    assert (added["operation"], also["operation"], also["chunks"]) == ("added", "added", 1)
    (again,) = shell.data("collection", "add", "main", "house", str(manual))
    assert again == {"operation": "unchanged", "chunks": added["chunks"]}
    listed = shell.data("collection", "list", "main", "--collection", "house")
    assert [one["name"] for one in listed] == ["boiler.md", "notes.txt"]
    assert "boiler.md" in shell.succeeds("collection", "list", "main")

    assert "--yes" in shell.fails(2, "collection", "remove", "main", "house")
    one = ("collection", "remove", "main", "house", "--document", "notes.txt", "--yes")
    assert shell.data(*one) == {"documents": 1, "chunks": 1}
    shell.fails(3, *one)
    shell.succeeds("collection", "remove", "main", "house", "--yes")
    assert shell.data("collection", "list", "main") == []


def test_what_cannot_be_a_document_is_refused_with_its_reason(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    picture, empty = tmp_path / "picture.png", tmp_path / "empty.md"
    picture.write_bytes(b"\x89PNG\xff\xfe")
    empty.write_text("")
    assert "UTF-8" in shell.fails(2, "collection", "add", "main", "house", str(picture))
    assert "0 characters" in shell.fails(2, "collection", "add", "main", "house", str(empty))
    shell.fails(2, "collection", "add", "main", "house", str(tmp_path / "absent.md"))
    empty.write_text("words")
    shell.fails(3, "collection", "add", "nobody", "house", str(empty))
    shell.fails(3, "collection", "list", "nobody")
