"""`choirctl import` on a whole Choir: each format is imported, found, imported again, and erased."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from choir_common.wire.memory_records import SessionRecord
from choirctl.imports import chatgpt
from choirctl.imports.items import Conversation
from choirctl.imports.memory_records import conversation_records
from choirctl.imports.source_files import open_source
from tests.support import foreign_exports
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

pytestmark = pytest.mark.timeout(600)
CONVERSATIONS = 300
"""Of three records each: five pieces."""
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
        pytest.param(
            "chatgpt", foreign_exports.chatgpt, "gyokuro", None, marks=pytest.mark.nightly
        ),
        ("claude", foreign_exports.claude, "lysefjord", "lauvvik"),
        ("hermes", foreign_exports.hermes, "dusk", "bosun"),
        pytest.param(
            "nanobot", foreign_exports.nanobot, "shelf", "brass", marks=pytest.mark.nightly
        ),
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


def many_conversations(folder: Path) -> dict[str, str]:
    """Write an export of several pieces; return its texts by their ids in memory."""
    texts = [
        json.dumps(foreign_exports.chatgpt_conversation(f"lantern {number}"))
        .replace("Which tea grows in Uji?", f"Where is lantern {number}?")
        .replace("Gyokuro and matcha.", f"Lantern {number} hangs in the porch.")
        for number in range(CONVERSATIONS)
    ]
    (folder / "conversations.json").write_text(f"[{','.join(texts)}]")
    records: dict[str, str] = {}
    with open_source(folder) as files:
        for item in chatgpt.read(files):
            assert isinstance(item, Conversation)
            units = conversation_records(item, "chatgpt")[0]
            records |= {it.id: it.text for it in units if isinstance(it, SessionRecord)}
    return records


def kill_after(stack: EmbeddedStack, path: Path, pieces: int) -> bool:
    """Import, and kill the process when this many pieces more are stored; return whether it was alive."""
    words = ("import", "chatgpt", str(path), "--yes")
    environment = {**os.environ, **stack.env, "CHOIR_HOME": str(stack.home)}
    transport = httpx2.HTTPTransport(uds=f"{stack.home}/socks/choird.sock")
    with httpx2.Client(transport=transport, base_url="http://choir", timeout=60) as client:

        def stored() -> int:
            audit = client.get("/v1/agents/main/memory/audit", params={"limit": 200}).json()
            return sum(it["operation"] == "import" for it in audit["items"])

        before = stored()
        process = subprocess.Popen([sys.executable, "-m", "choirctl", *words], env=environment)
        deadline = time.monotonic() + 240
        while stored() < before + pieces and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        return process.wait(60) == -signal.SIGKILL


@pytest.mark.nightly  # the test above imports twice, and nothing is there twice
def test_an_import_that_is_killed_goes_on_and_ends_as_one_in_one_go(
    shell: ChoirctlRunner, stack: EmbeddedStack, tmp_path: Path
) -> None:
    expected = many_conversations(tmp_path)
    killed = [kill_after(stack, tmp_path, pieces) for pieces in (0, 1, 2)]
    assert killed[:2] == [True, True], "the last may have been faster than this test"
    done = shell.data("import", "chatgpt", str(tmp_path), "--yes")
    assert done["kept"] == 0 and done["unchanged"] > 0
    assert done["written"] + done["unchanged"] == len(expected) + CONVERSATIONS
    lines = map(json.loads, shell.succeeds("memory", "export", "main").splitlines())
    units = [it for it in lines if it.get("type") == "session" and "antern" in it["text"]]
    assert len(units) == len(expected)
    assert {it["id"]: it["text"] for it in units} == expected
    again = shell.data("import", "chatgpt", str(tmp_path), "--yes")
    assert (again["written"], again["kept"]) == (0, 0)


def test_a_report_counts_one_as_one(shell: ChoirctlRunner, tmp_path: Path) -> None:
    path = str(foreign_exports.nanobot(tmp_path))
    done = run_choirctl("import", "nanobot", path, "--dry-run", home=shell.home, env=shell.env)
    assert "1 persona file, 1 memory, 1 conversation, 2 messages, 0 schedules, 1 channel" in (
        " ".join(done.stderr.split())
    )


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
