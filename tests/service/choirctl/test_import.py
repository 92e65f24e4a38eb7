"""`choirctl import` on a whole Choir: each format is imported, found, imported again, and erased."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import foreign_exports
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

pytestmark = pytest.mark.timeout(600)
GUIDE = Path(__file__).parents[3] / "docs" / "import.md"


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as running:
        yield running


@pytest.fixture
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


def texts(shell: ChoirctlRunner, words: str, store: str) -> list[str]:
    search = ("memory", "search", "main", words, "--mode", "text", "--store", store)
    hits = shell.data(*search)["hits"]
    assert all(hit["origin"] == "web" and hit["trust"] == 10 for hit in hits)
    return [hit["text"] for hit in hits]


@pytest.mark.parametrize(
    ("source", "make", "said", "remembered"),
    [
        ("chatgpt", foreign_exports.chatgpt, "gyokuro", None),
        ("claude", foreign_exports.claude, "lysefjord", "lauvvik"),
        ("hermes", foreign_exports.hermes, "dusk", "bosun"),
        ("nanobot", foreign_exports.nanobot, "shelf", "brass"),
    ],
)
def test_an_export_is_found_is_imported_once_and_can_be_erased(
    shell: ChoirctlRunner,
    tmp_path: Path,
    source: str,
    make: Callable[[Path], Path],
    said: str,
    remembered: str | None,
) -> None:
    command = (
        "import",
        source,
        str(make(tmp_path if source in ("hermes", "nanobot") else tmp_path / "x.zip")),
    )
    seen = shell.data(*command, "--dry-run")
    assert seen["dry_run"] and seen["found"]["conversations"] == 1
    assert texts(shell, said, "session") == []
    done = shell.data(*command, "--agent", "main", "--yes")
    assert done["written"] and not done["kept"]
    assert len(texts(shell, said, "session")) == 1
    assert remembered is None or len(texts(shell, remembered, "knowledge")) == 1
    again = shell.data(*command, "--yes")
    assert (again["written"], again["kept"], again["new_schedules"]) == (0, 0, 0)
    assert again["unchanged"] == done["written"]
    assert shell.data(*command, "--undo", "--yes")["erased"]
    assert texts(shell, said, "session") == []


def test_openclaw_comes_with_persona_memories_and_paused_schedules(
    shell: ChoirctlRunner, stack: EmbeddedStack, tmp_path: Path
) -> None:
    command = ("import", "openclaw", str(foreign_exports.openclaw(tmp_path)))
    assert "--yes" in shell.fails(2, *command)
    file = stack.home / "agents" / "main" / "identity" / "SOUL.md"
    file.unlink(missing_ok=True)
    done = shell.data(*command, "--yes")
    assert done["persona_file"] == "written" and done["channels"] == ["telegram"]
    assert file.read_text() == "# Pinch\nDry humour, short answers.\n"
    (schedule,) = shell.data("schedule", "list", "main")
    assert (schedule["state"], schedule["zone"]) == ("paused", "Europe/Berlin")
    (memory,) = texts(shell, "marigold", "knowledge")
    assert foreign_exports.KEY not in memory and "[redacted]" in memory
    day = ("--since", "2025-03-05", "--until", "2025-03-05", "--store", "session")
    hits = shell.data("memory", "search", "main", "", *day)["hits"]
    assert "Where is the anchor?" in [hit["text"] for hit in hits]
    assert "secret thoughts" not in str(hits)
    again = shell.data(*command, "--yes")
    assert (again["written"], again["new_schedules"], again["persona_file"]) == (0, 0, "unchanged")


def test_the_commands_of_the_guide_work(shell: ChoirctlRunner, tmp_path: Path) -> None:
    commands = re.findall(r"^choirctl import (\w+) (\S+)(.*)$", GUIDE.read_text(), re.MULTILINE)
    assert {source for source, _, _ in commands} == {
        "openclaw",
        "hermes",
        "chatgpt",
        "claude",
        "nanobot",
    }
    for number, (source, path, options) in enumerate(commands):
        folder = tmp_path / str(number)
        folder.mkdir()
        export = getattr(foreign_exports, source)(
            folder / "x.zip" if path.endswith(".zip") else folder
        )
        words = options.split("#")[0].split()
        if "--dry-run" not in words and "--yes" not in words:
            words.append("--yes")
        shell.succeeds("import", source, str(export), *words)


def test_a_dry_run_of_an_empty_export_says_that_there_is_nothing(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    empty = str(tmp_path)
    reports = [
        shell.data("import", "openclaw", empty, "--dry-run"),
        shell.data("import", "hermes", empty, "--dry-run"),
        shell.data("import", "chatgpt", empty, "--dry-run"),
        shell.data("import", "claude", empty, "--dry-run"),
        shell.data("import", "nanobot", empty, "--dry-run"),
    ]
    assert [report["found"] for report in reports] == [{"left out": 1}] * 5
