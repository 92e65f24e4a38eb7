"""`choirctl memory` on a whole Choir: look, write, erase, carry away and bring back, with exit codes."""

import json
import math
import operator
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import openai
import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsSessionMemoryClient, SessionMemoryClient
from tests.support.sessions import BEGAN, LogBuilder
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

pytestmark = pytest.mark.timeout(
    600
)  # each command loads a Python; on a busy machine that takes a while

SECRET = "sk-a-secret-of-the-operator"


def more_agents(home: Path) -> None:
    """Have two more agents that nobody starts, and a secret that no memory may hold."""
    file = home / "config.json"
    config = json.loads(file.read_text())
    for name in ("twin", "heir"):
        config["agents"][name] = {**config["agents"]["main"], "autostart": False}
    file.write_text(json.dumps(config))
    secrets = home / "secrets.json"
    held = json.loads(secrets.read_text())
    secrets.write_text(json.dumps({**held, "some-key": SECRET}))


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack(prepare=more_agents) as running:
        yield running


@pytest.fixture
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


def test_knowledge_is_written_listed_shown_and_found(shell: ChoirctlRunner) -> None:
    made = shell.data("memory", "put", "main", "The operator likes oolong.", "--key", "user/tea")
    assert (made["operation"], made["version"]) == ("inserted", 1)
    assert "oolong" in shell.succeeds("memory", "list", "main", "--prefix", "user/")
    shown = shell.succeeds("memory", "show", "main", "user/tea")
    assert "operator" in shown and "The operator likes oolong." in shown
    found = shell.data("memory", "search", "main", "oolong", "--mode", "text")
    assert [hit["key"] for hit in found["hits"]] == ["user/tea"]
    told = shell.data("memory", "receipt", "main", found["receipt_id"])
    assert made["document_id"] in json.dumps(told["receipt"])


def test_a_write_can_name_the_version_it_stands_on(shell: ChoirctlRunner) -> None:
    shell.succeeds("memory", "put", "main", "Tea.", "--key", "drink", "--expect-version", "0")
    stale = ("memory", "put", "main", "Coffee.", "--key", "drink", "--expect-version", "7")
    said = shell.fails(5, *stale)
    assert "version 1" in said and "version 7" in said
    changed = ("memory", "put", "main", "--key", "drink", "--expect-version", "1")
    assert shell.succeeds(*changed, given="Coffee.\n") == ""
    assert shell.data("memory", "show", "main", "drink")["record"]["text"] == "Coffee."


@pytest.mark.nightly  # tests/service/memory supersedes
def test_what_is_no_longer_true_is_superseded_and_found_on_request(shell: ChoirctlRunner) -> None:
    old = shell.data("memory", "put", "main", "The ferry leaves at nine.", "--key", "ferry.old")
    new = shell.data(
        *("memory", "put", "main", "The ferry leaves at ten.", "--key", "ferry"),
        *("--supersedes", "ferry.old", "--valid-from", "2020-01-01"),
    )
    assert new["superseded"] == [old["document_id"]]
    search = ("memory", "search", "main", "when does the ferry leave", "--mode", "text")
    assert [hit["key"] for hit in shell.data(*search)["hits"]] == ["ferry"]
    found = shell.data(*search, "--include", "retired")["hits"]
    assert {hit["key"]: hit["superseded_by"] for hit in found} == {
        "ferry": [],
        "ferry.old": [new["document_id"]],
    }
    assert "retired" in shell.succeeds(*search, "--include", "retired")
    assert "ferry.old" not in shell.succeeds("memory", "list", "main")
    assert "ferry.old" in shell.succeeds("memory", "list", "main", "--hidden")
    end = ("memory", "put", "main", "--key", "ferry", "--keep-text", "--valid-to", "2021-01-01")
    assert shell.data(*end)["version"] == 2
    assert shell.data(*search)["hits"] == []
    assert "after it starts" in shell.fails(2, *end[:-1], "2019-01-01")
    assert "--keep-text" in shell.fails(2, *end, "words")
    assert shell.data(*end[:-1], "9999-12-31")["version"] == 3
    assert "until 9999-12-31" in shell.succeeds("memory", "list", "main")


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("--status", "done"), "'active', 'held' or 'retired'"),
        (("--valid-from", "tomorrow"), "2026-05-31"),
        (("--valid-from", "2030-01-02", "--valid-to", "2030-01-01"), "includes that day"),
        (("--id", "x"), "32 hexadecimal digits"),
        (("--metadata", "[]"), "an object"),
    ],
)
def test_a_wrong_value_of_a_write_says_what_is_allowed(
    shell: ChoirctlRunner, words: tuple[str, ...], allowed: str
) -> None:
    said = shell.fails(2, "memory", "put", "main", "Words.", *words)
    assert allowed in " ".join(said.split())


def test_a_write_of_nothing_says_what_it_could_change(shell: ChoirctlRunner) -> None:
    said = shell.fails(2, "memory", "put", "main", "--key", "some", "--keep-text")
    assert "a status, valid_from, valid_to or supersedes" in " ".join(said.split())


def test_a_document_is_erased_after_a_question(shell: ChoirctlRunner) -> None:
    shell.succeeds("memory", "put", "main", "Forget me.", "--key", "gone")
    assert "--yes" in shell.fails(2, "memory", "delete", "main", "gone")
    erased = shell.data("memory", "delete", "main", "gone", "--yes")
    assert erased == {"documents": 1, "derived": 0}
    shell.fails(3, "memory", "show", "main", "gone")
    shell.fails(2, "memory", "delete", "main", "--yes")
    shell.fails(3, "memory", "list", "nobody")
    assert "document_chunk" in shell.fails(2, "memory", "list", "main", "--kind", "nokind")


def test_what_is_to_be_forgotten_is_shown_then_exactly_that_is_erased(
    shell: ChoirctlRunner,
) -> None:
    for key, text in (("one", "The zebra is striped."), ("two", "A zebra eats."), ("three", "Ox")):
        shell.succeeds("memory", "put", "main", text, "--key", f"zoo.{key}")
    shown = shell.data("memory", "forget", "main", "--words", "zebra", "--preview")
    assert shown["memory"]["counts"] == {"note": 2} and not shown["memory"]["erased"]
    assert "striped" in shell.succeeds("memory", "forget", "main", "--words", "zebra", "--preview")
    assert "--preview" in shell.fails(2, "memory", "forget", "main", "--words", "zebra")
    assert len(shell.data("memory", "list", "main", "--prefix", "zoo.")) == 3
    done = shell.data("memory", "forget", "main", "--words", "zebra", "--yes")
    assert done["memory"]["erased"] and done["memory"]["total"] == 2
    (rest,) = shell.data("memory", "list", "main", "--prefix", "zoo.")
    assert rest["key"] == "zoo.three"
    shell.fails(2, "memory", "forget", "main", "--yes")
    shell.fails(2, "memory", "forget", "main", "--last", "soon", "--yes")
    assert "2026-03-01" in shell.fails(2, "memory", "forget", "main", "--until", "soon", "--yes")
    # a date includes that day, as in `memory list`
    one_day = ("--since", "2020-02-01", "--until", "2020-02-01")
    assert shell.data("memory", "forget", "main", *one_day, "--preview")["memory"]["total"] == 0
    shell.fails(2, "memory", "forget", "main", "--last", "1h", "--since", "2026-01-01", "--yes")
    shell.fails(3, "memory", "forget", "nobody", "--words", "zebra", "--preview")


def test_lessons_of_a_source_can_be_taken_back(shell: ChoirctlRunner) -> None:
    shell.succeeds("memory", "put", "main", "A source.", "--key", "source")
    shown = shell.data("memory", "undo", "main", "--source", "source", "--preview")
    assert shown["memory"]["total"] == 0 and shown["conversation"] == "kept"
    done = shell.data("memory", "undo", "main", "--source", "source", "--yes")
    assert done["memory"]["erased"]
    assert shell.data("memory", "show", "main", "source")["record"]["text"] == "A source."
    shell.fails(3, "memory", "undo", "main", "--source", "no-such-source", "--yes")
    shell.fails(2, "memory", "undo", "main", "--source", "source", "--last", "1h", "--yes")


def test_a_reset_shows_what_it_clears_and_keeps(shell: ChoirctlRunner) -> None:
    shell.succeeds("chat", "-m", "The anvil is in the shed.")
    before = shell.data("session", "list", "main")[0]["session_id"]
    shown = shell.data("session", "reset", "main", "--preview")
    assert shown["conversation"] == "summary" and shown["logs"] == [before]
    assert shell.data("session", "list", "main")[0]["session_id"] == before
    shell.fails(2, "session", "reset", "main")
    done = shell.data("session", "reset", "main", "--all", "--yes")
    assert done["conversation"] == "nothing" and done["restarts"]
    assert shell.data("session", "list", "main")[0]["session_id"] != before


def test_a_secret_in_what_is_written_is_masked(shell: ChoirctlRunner) -> None:
    shell.succeeds("secret", "apply")
    words = f"The key is {SECRET}."
    made = shell.data("memory", "put", "main", words, "--metadata", json.dumps({"of": SECRET}))
    shown = shell.data("memory", "show", "main", made["document_id"])["record"]
    assert shown["text"] == "The key is [redacted]." and SECRET not in json.dumps(shown)
    shell.succeeds("memory", "delete", "main", made["document_id"], "--yes")


def test_a_memory_is_carried_to_another_agent_and_found_there_alike(
    shell: ChoirctlRunner, tmp_path: Path
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


@pytest.mark.nightly  # the test above carries a memory
async def test_the_memory_of_an_agent_that_has_lived_is_carried_whole_and_searched_alike(
    stack: EmbeddedStack, shell: ChoirctlRunner, tmp_path: Path
) -> None:
    shell.succeeds("chat", "-m", "The ladder leans on the barn.")
    shell.succeeds("agent", "restart", "main")
    nats = str(stack.children()["endpoints"]["nats"])
    async with Bus(nats, stack.secret("nats-key-control"), "control") as bus:
        await lived_sessions(NatsSessionMemoryClient(bus))
    note = (
        "memory",
        "put",
        "main",
        "The barn is red.",
        "--metadata",
        '{"of": null, "by": {"at": null}}',
    )
    shell.succeeds(*note)
    until_remembered(shell, "ladder leans")
    until_embedded(shell, "main")
    exported = [tmp_path / "main.jsonl", tmp_path / "twin.jsonl"]
    shell.succeeds("memory", "export", "main", "--out", str(exported[0]))
    records = [json.loads(line) for line in exported[0].read_text().splitlines()][1:-1]
    passed = [one for one in records if one["type"] == "passed_session"]
    assert {(one["ended_at"] is None, one["promoted_at"] is None) for one in passed} == {
        (True, True),
        (False, True),
        (False, False),
    }
    assert {one["kind"] for one in records if "kind" in one} >= {
        "turn",
        "tools",
        "summary",
        "episode",
    }
    done = shell.data("memory", "import", "heir", str(exported[0]))
    assert done == {"records": len(records), "written": len(records), "unchanged": 0, "refused": []}
    assert shell.data("memory", "import", "heir", str(exported[0]))["unchanged"] == len(records)
    until_embedded(shell, "heir")
    shell.succeeds("memory", "export", "heir", "--out", str(exported[1]))
    again = [json.loads(line) for line in exported[1].read_text().splitlines()][1:-1]
    # no process continues an imported session: the live one has ended
    for one in (*records, *again):
        one.pop("ended_at", None) if one["type"] == "passed_session" else None
    assert again == records

    def hits(agent: str, *words: str) -> list[Any]:
        found = shell.data("memory", "search", agent, *words)
        return [(hit["document_id"], hit["score"], hit["arms"]) for hit in found["hits"]]

    for words in (
        ("where is the ladder?", "--store", "session"),
        ("otter of the 3rd day", "--store", "session", "--mode", "text"),
        ("what color has the barn?",),
    ):
        assert hits("main", *words) == hits("heir", *words) != [], words


async def lived_sessions(memory: SessionMemoryClient) -> None:
    """Archive twelve ended sessions of `main`, two of them promoted, and a live one."""
    for day in range(13):
        script = LogBuilder(f"day-{day}", started_at=BEGAN + timedelta(days=day))
        script.start()
        script.user(f"The otter of the {day}th day sleeps.")
        script.tool("c1", "choir.exec", {"out": f"line {day}"})
        script.reply("I see.")
        script.user("And the boat?", "t2")
        script.reply("It floats.", "t2")
        if day < 12:
            script.stop(
                f"Of otter {day}.", [("Otters", f"Number {day}."), ("Boats", "They float.")]
            )
        await memory.archive(script.page(keep=10 if day < 12 else None))


def until_remembered(shell: ChoirctlRunner, words: str) -> None:
    """Wait until control has archived the session of `main` in which this was said; any search finds it."""
    deadline = time.monotonic() + 120
    search = ("memory", "search", "main", words, "--mode", "text")
    while not shell.data(*search)["hits"]:
        assert time.monotonic() < deadline, f"{words!r} did not arrive in memory"
        time.sleep(0.5)


def until_embedded(shell: ChoirctlRunner, agent: str) -> None:
    """Wait until every document of an agent that is to have a vector has one."""
    deadline = time.monotonic() + 120
    while True:
        state = shell.data("memory", "status", agent)
        if not state["queued"] and not any(each["without_vector"] for each in state["counts"]):
            return
        assert time.monotonic() < deadline, state
        time.sleep(0.5)


def summary_records() -> list[dict[str, object]]:
    """Return time summaries of two months and a quarter, as an export has them."""
    months = {"2024-01": "2024-01-01", "2024-02": "2024-02-01"}
    periods = [("month", *item) for item in months.items()]
    return [
        {
            "type": "session",
            "id": str(uuid5(NAMESPACE_URL, period)),
            "session_id": None,
            "tier": "grain_summary",
            "chunk_index": 0,
            "text": f"In {period} the otter slept.",
            "created_at": "2024-06-01T00:00:00Z",
            "kind": "summary",
            "happened_at": f"{first_day}T00:00:00Z",
            "ended_at": f"{first_day[:-2]}28T00:00:00Z",
            "grain": grain,
            "period": period,
        }
        for grain, period, first_day in [*periods, ("quarter", "2024-Q1", "2024-01-01")]
    ]


def test_documents_are_searched_and_listed_by_grain_and_date(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    head = {"choir_memory": 1, "agent_id": "main", "exported_at": "2026-01-01T00:00:00Z"}
    records = summary_records()
    lines = (head, *records, {"end": True, "records": len(records)})
    file = tmp_path / "summaries.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert shell.data("memory", "import", "twin", str(file))["written"] == 3

    def searched(*words: str) -> list[Any]:
        return [hit["period"] for hit in shell.data("memory", "search", "twin", *words)["hits"]]

    def listed(*words: str) -> list[Any]:
        return [one["period"] for one in shell.data("memory", "list", "twin", *words)]

    for found in (searched, listed):
        assert found("--grain", "month") == ["2024-02", "2024-01"]
        assert found("--grain", "month", "--since", "2024-02-10") == ["2024-02"]
        assert found("--grain", "month", "--until", "2024-01-31") == ["2024-01"]
        assert found("--grain", "quarter", "--min-days-ago", "30") == ["2024-Q1"]
        assert found("--grain", "quarter", "--max-days-ago", "30") == []
        assert found("--grain", "month", "--tags", '{"a": 1}') == []
    assert searched("otter", "--grain", "month", "--mode", "text", "--min-score", "0.1") != []
    assert "2024-02" in shell.succeeds("memory", "list", "twin", "--grain", "month")
    assert "JSON object" in shell.fails(2, "memory", "search", "twin", "otter", "--tags", "[]")
    assert "grain" in shell.fails(2, "memory", "search", "twin")
    assert "No document" in shell.fails(0, "memory", "list", "twin", "--grain", "day")
    for words in (("--grain", "decade"), ("--store", "else"), ("--since", "yesterday")):
        for command in ("list", "search"):
            said = shell.fails(2, "memory", command, "twin", *words)
            assert any(name in said for name in ("'quarter'", "'knowledge'", "2026-05-31")), said
    assert {one["grain"] for one in shell.data("memory", "list", "twin", "--grain", "month")} == {
        "month"
    }


def test_a_file_that_is_no_whole_export_is_refused_before_anything_is_sent(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    head = '{"choir_memory": 1, "agent_id": "main", "exported_at": "2026-01-01T00:00:00Z"}'
    for name, lines, told in (
        ("cut", (head,), "not a complete export"),
        ("wrong", (head, '{"type": "knowledge"}', '{"end": true, "records": 1}'), "line 2"),
        ("other", ('{"name": "x"}',), "not a memory export"),
    ):
        file = tmp_path / name
        file.write_text("\n".join(lines))
        assert told in shell.fails(2, "memory", "import", "main", str(file))
    shell.fails(3, "memory", "import", "main", str(tmp_path / "none"))


def test_an_import_says_what_it_left_out(shell: ChoirctlRunner, tmp_path: Path) -> None:
    shell.succeeds("memory", "put", "main", "Moss wants shade.", "--key", "moss")
    file = tmp_path / "main.jsonl"
    file.write_text(shell.succeeds("memory", "export", "main"))
    shell.succeeds("memory", "put", "main", "Moss wants rain.", "--key", "moss")
    assert "1 record of the file" in shell.fails(5, "memory", "import", "main", str(file))
    assert shell.data("memory", "show", "main", "moss")["record"]["text"] == "Moss wants rain."


def test_every_step_of_an_operator_stands_in_the_audit(shell: ChoirctlRunner) -> None:
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


def test_a_session_is_erased_from_memory(stack: EmbeddedStack, shell: ChoirctlRunner) -> None:
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


def test_the_memory_mode_is_shown_and_switched_and_so_is_recall(shell: ChoirctlRunner) -> None:
    if not shell.data("agent", "status", "main")["session_id"]:
        shell.succeeds("agent", "start", "main")
    before = shell.data("memory", "mode", "main")
    assert (before["mode"], before["recall"]) == ("local", True)
    assert shell.data("memory", "recall", "main", "off")["recall"] is False
    assert shell.data("agent", "status", "main")["recall"] is False
    assert shell.data("memory", "recall", "main", "default")["recall"] is True
    assert "on, off, default" in shell.fails(2, "memory", "recall", "main", "perhaps")
    private = shell.data("memory", "mode", "main", "guest")
    assert private["mode"] == "incognito" and private["session_id"] != before["session_id"]
    assert "incognito" in shell.succeeds("memory", "mode", "main")
    assert "incognito" in shell.succeeds("status")
    assert "incognito" in shell.succeeds("agent", "list")
    assert "incognito" in shell.succeeds("session", "list")
    assert "guest" in shell.fails(2, "memory", "mode", "main", "private")
    assert shell.data("memory", "mode", "main", "local")["mode"] == "local"


def test_feedback_on_the_agents_conduct_is_listed(shell: ChoirctlRunner) -> None:
    assert shell.data("memory", "feedback", "main") == []
    shell.succeeds("memory", "feedback", "main", "--session", "ses_none", "--limit", "5")
    assert "greater than or equal to 1" in shell.fails(
        2, "memory", "feedback", "main", "--limit", "0"
    )


def similarity(one: list[float], other: list[float]) -> float:
    return sum(map(operator.mul, one, other))


def test_a_client_embeds_texts_with_the_model_of_memory(shell: ChoirctlRunner) -> None:
    added = shell.data("client", "add", "vectors", "--scope", "embeddings")
    assert added["client"]["conversations"] == []
    with openai.OpenAI(base_url=added["base_url"], api_key=added["token"], timeout=240) as client:
        (model,) = [it.id for it in client.models.list()]
        texts = ["The cat sleeps.", "A kitten is asleep.", "Interest rates rise."]
        done = client.embeddings.create(model=model, input=texts)
        assert done.usage.prompt_tokens == 6 + 7 + 6, "with the marks at both ends"
        cat, kitten, rates = [it.embedding for it in done.data]
        assert math.hypot(*cat) == pytest.approx(1, abs=0.01)
        assert similarity(cat, kitten) > similarity(cat, rates) + 0.2
        as_numbers = client.embeddings.create(
            model=model, input=texts[0], encoding_format="float", dimensions=len(cat)
        )
        assert as_numbers.data[0].embedding == pytest.approx(cat, abs=0.02)
        with pytest.raises(openai.BadRequestError, match="384 numbers"):
            client.embeddings.create(model=model, input="x", dimensions=256)
        with pytest.raises(openai.NotFoundError, match=model):
            client.embeddings.create(model="text-embedding-3-small", input="x")
