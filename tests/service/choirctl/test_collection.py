"""`choirctl collection` on a whole Choir: bring documents, find them, take them away."""

import time
from pathlib import Path

import pytest

from tests.service.memory import documents
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack

pytestmark = pytest.mark.timeout(600)

MANUAL = "# Boiler\n## Pressure\nKeep it between 1 and 2 bar.\n## Bleeding\nOpen the valve.\n"


@pytest.fixture
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


def test_documents_are_brought_listed_and_erased_after_a_question(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    manual, notes, bill = (tmp_path / name for name in ("boiler.md", "notes.txt", "bill.pdf"))
    manual.write_text(MANUAL)
    notes.write_text("The filter is changed in spring.")
    (added, also) = shell.data("collection", "add", "main", "house", str(manual), str(notes))
    assert (added["operation"], also["operation"], also["chunks"]) == ("added", "added", 1)
    documents.write_pdf(bill, "Paid 80 francs to Mr Huber.")
    shell.succeeds("collection", "add", "main", "bills", str(bill))
    shell.succeeds("collection", "remove", "main", "bills", "--yes")
    (again,) = shell.data("collection", "add", "main", "house", str(manual))
    assert again == {"operation": "unchanged", "chunks": added["chunks"]}
    listed = shell.data("collection", "list", "main", "--collection", "house")
    assert [one["name"] for one in listed] == ["boiler.md", "notes.txt"]
    assert "boiler.md" in shell.succeeds("collection", "list", "main", "--collection", "house")
    assert "added one by one" in shell.succeeds("collection", "list", "main")
    (house,) = shell.data("collection", "list", "main")
    assert (house["name"], house["documents"], house["folder"]) == ("house", 2, None)

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
    assert "not of a kind" in shell.fails(2, "collection", "add", "main", "house", str(picture))
    assert "empty.md is empty" in shell.fails(2, "collection", "add", "main", "house", str(empty))
    shell.fails(2, "collection", "add", "main", "house", str(tmp_path / "absent.md"))
    empty.write_text("words")
    shell.fails(3, "collection", "add", "nobody", "house", str(empty))
    shell.fails(3, "collection", "list", "nobody")


def test_a_folder_is_followed_shown_searched_and_removed(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    (folder / "boiler.md").write_text(MANUAL)
    documents.write_pdf(folder / "bill.pdf", "Paid 80 francs to Mr Huber.")
    (folder / "broken.docx").write_text("no document")
    added = shell.data("collection", "add", "main", "manuals", str(folder))
    assert (added["documents"], added["folder"]["state"]) == (2, "current")
    assert added["folder"]["path"] == str(folder.resolve())
    (hit, *_) = shell.data("memory", "search", "main", "francs Huber", "--store", "knowledge")[
        "hits"
    ]
    assert hit["text"].startswith("bill.pdf › Page 1")
    assert "1 file not readable" in shell.succeeds("collection", "list", "main")
    of_folder = ("collection", "list", "main", "--collection", "manuals")
    (broken,) = shell.data(*of_folder, "--unreadable")
    assert broken["name"] == "broken.docx" and "damaged" in broken["problem"]
    assert "damaged" in shell.succeeds(*of_folder)
    # again, after a change, without waiting for the next scan by itself
    assert "absolute" in shell.fails(2, "collection", "add", "main", "x", "manuals", "--folder")
    (folder / "broken.docx").unlink()
    again = shell.data("collection", "add", "main", "manuals", str(folder))
    assert again["folder"]["unreadable"] == 0
    shell.fails(5, "collection", "add", "main", "manuals", str(folder / "boiler.md"))
    shell.fails(2, "collection", "add", "main", "manuals", str(folder), str(tmp_path))
    state = shell.fails(2, "collection", "add", "main", "state", str(shell.home))
    assert "state directory" in state
    removed = shell.data("collection", "remove", "main", "manuals", "--yes")
    assert removed["documents"] == 2
    deadline = time.monotonic() + 60
    while shell.data("collection", "list", "main"):
        assert time.monotonic() < deadline, "the folder's documents are still there"
