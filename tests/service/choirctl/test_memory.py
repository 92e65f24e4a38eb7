"""`choirctl memory` on a whole Choir: look, write, erase, carry away and bring back, with exit codes."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import Shell
from tests.support.stack import Stack, running_stack

pytestmark = pytest.mark.timeout(
    600
)  # each command loads a Python; on a busy machine that takes a while

SECRET = "sk-a-secret-of-the-operator"


def second_agent(home: Path) -> None:
    """Have a second agent that nobody starts, and a secret that no memory may hold."""
    file = home / "config.json"
    config = json.loads(file.read_text())
    config["agents"]["twin"] = {**config["agents"]["main"], "autostart": False}
    file.write_text(json.dumps(config))
    secrets = home / "secrets.json"
    held = json.loads(secrets.read_text())
    secrets.write_text(json.dumps({**held, "some-key": SECRET}))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running_stack(prepare=second_agent) as running:
        yield running


@pytest.fixture
def shell(stack: Stack) -> Shell:
    return Shell(stack.home, stack.env)


def test_knowledge_is_written_listed_shown_and_found(shell: Shell) -> None:
    made = shell.data("memory", "put", "main", "The operator likes oolong.", "--key", "user/tea")
    assert (made["operation"], made["version"]) == ("inserted", 1)
    assert "oolong" in shell.succeeds("memory", "list", "main", "--prefix", "user/")
    shown = shell.succeeds("memory", "show", "main", "user/tea")
    assert "operator" in shown and "The operator likes oolong." in shown
    found = shell.data("memory", "search", "main", "oolong", "--mode", "text")
    assert [hit["key"] for hit in found["hits"]] == ["user/tea"]
    told = shell.data("memory", "receipt", "main", found["receipt_id"])
    assert made["document_id"] in json.dumps(told["receipt"])


def test_a_write_can_name_the_version_it_stands_on(shell: Shell) -> None:
    shell.succeeds("memory", "put", "main", "Tea.", "--key", "drink", "--expect-version", "0")
    stale = ("memory", "put", "main", "Coffee.", "--key", "drink", "--expect-version", "7")
    said = shell.fails(5, *stale)
    assert "version 1" in said and "version 7" in said
    changed = ("memory", "put", "main", "--key", "drink", "--expect-version", "1")
    assert shell.succeeds(*changed, given="Coffee.\n") == ""
    assert shell.data("memory", "show", "main", "drink")["record"]["text"] == "Coffee."


def test_a_document_is_erased_after_a_question(shell: Shell) -> None:
    shell.succeeds("memory", "put", "main", "Forget me.", "--key", "gone")
    assert "--yes" in shell.fails(2, "memory", "delete", "main", "gone")
    erased = shell.data("memory", "delete", "main", "gone", "--yes")
    assert erased == {"documents": 1, "derived": 0}
    shell.fails(3, "memory", "show", "main", "gone")
    shell.fails(2, "memory", "delete", "main", "--yes")
    shell.fails(3, "memory", "list", "nobody")


def test_a_secret_in_what_is_written_is_masked(shell: Shell) -> None:
    shell.succeeds("secret", "apply")
    words = f"The key is {SECRET}."
    made = shell.data("memory", "put", "main", words, "--metadata", json.dumps({"of": SECRET}))
    shown = shell.data("memory", "show", "main", made["document_id"])["record"]
    assert shown["text"] == "The key is [redacted]." and SECRET not in json.dumps(shown)
    shell.succeeds("memory", "delete", "main", made["document_id"], "--yes")


def test_a_memory_is_carried_to_another_agent_and_found_there_alike(
    shell: Shell, tmp_path: Path
) -> None:
    for number, text in enumerate(("Beans want sun.", "豆子喜歡陽光")):
        shell.succeeds("memory", "put", "main", text, "--key", f"garden.{number}")
    file = tmp_path / "main.jsonl"
    shell.succeeds("memory", "export", "main", "--out", str(file))
    assert (file.stat().st_mode & 0o777) == 0o600
    records = file.read_text().count("\n") - 2
    done = shell.data("memory", "import", "twin", str(file))
    assert done == {"records": records, "written": records, "unchanged": 0, "refused": []}
    assert shell.data("memory", "import", "twin", str(file))["unchanged"] == records

    def hits(agent: str) -> list[Any]:
        found = shell.data("memory", "search", agent, "beans 陽光", "--mode", "text")
        return [(hit["document_id"], hit["score"]) for hit in found["hits"]]

    assert hits("main") == hits("twin") != []

    state = shell.data("memory", "status", "twin")
    assert sum(each["documents"] for each in state["counts"]) >= 2
    assert state["unfinished_imports"] == []


def test_a_file_that_is_no_whole_export_is_refused_before_anything_is_sent(
    shell: Shell, tmp_path: Path
) -> None:
    head = '{"choir_memory": 1, "agent_id": "main", "exported_at": "2026-01-01T00:00:00Z"}'
    for name, lines, told in (
        ("cut", (head,), "not a whole export"),
        ("wrong", (head, '{"type": "knowledge"}', '{"end": true, "records": 1}'), "line 2"),
        ("other", ('{"name": "x"}',), "no export of memory"),
    ):
        file = tmp_path / name
        file.write_text("\n".join(lines))
        assert told in shell.fails(2, "memory", "import", "main", str(file))
    shell.fails(3, "memory", "import", "main", str(tmp_path / "none"))


def test_an_import_says_what_it_left_out(shell: Shell, tmp_path: Path) -> None:
    shell.succeeds("memory", "put", "main", "Moss wants shade.", "--key", "moss")
    file = tmp_path / "main.jsonl"
    file.write_text(shell.succeeds("memory", "export", "main"))
    shell.succeeds("memory", "put", "main", "Moss wants rain.", "--key", "moss")
    assert "1 record of the file" in shell.fails(5, "memory", "import", "main", str(file))
    assert shell.data("memory", "show", "main", "moss")["record"]["text"] == "Moss wants rain."


def test_every_step_of_an_operator_stands_in_the_audit(shell: Shell) -> None:
    made = shell.data("memory", "put", "main", "Watch me.", "--key", "watched")
    shell.succeeds("memory", "show", "main", "watched")
    newest = shell.data("memory", "audit", "main", "--limit", "2")
    assert [(one["actor"], one["operation"]) for one in newest] == [
        ("operator", "show"),
        ("operator", "inserted"),
    ]
    assert {tuple(one["document_ids"]) for one in newest} == {(made["document_id"],)}
    assert "watched" not in json.dumps(newest)
    assert "inserted" in shell.succeeds("memory", "audit", "main", "--limit", "3")


def test_a_session_is_erased_from_memory(stack: Stack, shell: Shell) -> None:
    stack.run("chat", "-m", "The gate code is walnut seven.")
    shell.succeeds("agent", "stop", "main")
    (session,) = [one["session_id"] for one in shell.data("session", "list", "main")][:1]
    deadline = time.monotonic() + 120
    of_session = ("memory", "list", "main", "--session", session)
    while not (units := shell.data(*of_session)):
        assert time.monotonic() < deadline, "the session never became memory"
        time.sleep(0.5)
    assert any("walnut" in unit["text"] for unit in units)
    erased = shell.data("memory", "delete", "main", "--session", session, "--yes")
    assert erased["documents"] >= len(units)
    assert shell.data(*of_session) == []
    assert "walnut" not in shell.succeeds("memory", "export", "main")
