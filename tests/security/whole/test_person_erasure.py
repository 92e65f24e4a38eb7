"""After `choirctl person erase` no byte of what a person said is in any table or file of Choir."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from choir_common.eventlog.chain import canonical_json
from choir_common.eventlog.key_file import load_keys
from choir_common.eventlog.signature import AuditKeyring, SignatureState
from choir_common.wire.erasure import ErasureCertificate
from choir_local.database.connection import open_database, run_program
from choir_local.settings import LocalSettings
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack

CANARY, OTHER = "quetzalcoatlus-7731", "archaeopteryx-4402"
PATIENCE_S = 300.0
LAST_WORDS = "still-" + CANARY


def add_second_person(home: Path) -> None:
    """Add a second person with an agent of her own."""
    file = home / "config.json"
    config = json.loads(file.read_text())
    config["workspaces"]["spare"] = {"path": str(home / "workspaces/spare")}
    config["dms"]["second"] = {"gateway": "console", "user_id": "second"}
    defaults = {**config["agents"]["main"]["defaults"], "workspace": "spare", "dm": "second"}
    owner = {"gateway": "console", "user": config["dms"]["console"]["user_id"]}
    config["people"] = {"ada": {"role": "owner", "identities": [owner]}}
    config["agents"]["other"] = {**config["agents"]["main"], "defaults": defaults}
    file.write_text(json.dumps(config))


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack(prepare=add_second_person) as running:
        yield running


async def find_places(stack: EmbeddedStack, text: str) -> list[str]:
    """Return the tables and files that contain a text; Postgres' own files are read by a dump."""
    dump = stack.home / "dump.sql"
    async with open_database(LocalSettings(home=stack.home)) as access:
        options = ("--format=plain", "--inserts", "--file", str(dump), "choir")
        await run_program(access, "pg_dump", *options, inspect_progress=lambda: None)
    places = [line.split()[2] for line in dump.read_text().splitlines() if text in line]
    dump.unlink()
    for path in stack.home.rglob("*"):
        if path.is_file() and not path.is_relative_to(stack.home / "data/postgres"):
            content = path.read_bytes()
            if text.encode() in content or text in path.name:
                places.append(str(path.relative_to(stack.home)))
    return places


async def until_memory_has_it(stack: EmbeddedStack) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not any("memory_documents" in place for place in await find_places(stack, CANARY)):
        assert time.monotonic() < deadline, stack.logs()
        await asyncio.sleep(1)


async def test_no_canary_of_an_erased_person_is_anywhere_and_others_stay(
    stack: EmbeddedStack, tmp_path: Path
) -> None:
    shell = ChoirctlRunner(stack.home, stack.env)
    file = tmp_path / f"{CANARY}.txt"
    file.write_text(f"a file about {CANARY}")
    shell.succeeds("chat", "-m", f"hello, I am {CANARY}", "--send", str(file))
    shell.succeeds("chat", "--dm", "second", "-m", f"hello, I am {OTHER}")
    shell.succeeds("agent", "restart", "main")
    await until_memory_has_it(stack)
    shell.succeeds("chat", "-m", LAST_WORDS)
    (stack.home / "chat_history").write_text(f"+{LAST_WORDS}\n")  # as typed in a chat
    before = await find_places(stack, CANARY)
    for table in ("session_events", "inbox", "memory_documents"):
        assert any(table in place for place in before), before
    assert any("workspaces" in place for place in before), "the received file"
    sessions = [session["session_id"] for session in shell.data("session", "list", "main")]

    plan = shell.data("person", "erase", "console", "--preview")
    assert {each["session_id"] for each in plan["sessions"]} == set(sessions)
    assert plan["places"]["session_events"] > 0 and plan["running"] == ["main"]
    assert "Say --yes" in shell.fails(2, "person", "erase", "console")
    assert "no DM" in shell.fails(3, "person", "erase", "nobody", "--yes")
    proof = tmp_path / "certificate.json"
    shown = shell.data("person", "erase", "console", "--yes", "--certificate", str(proof))

    assert await find_places(stack, CANARY) == []
    kept = await find_places(stack, OTHER)
    assert any("session_events" in place for place in kept), kept
    certificate = ErasureCertificate.model_validate_json(proof.read_text())
    assert json.loads(proof.read_text()) == shown
    assert certificate.removed["session_events"] > 0 and certificate.removed["memory documents"] > 0
    content = certificate.model_dump(mode="json", exclude={"key_id", "signature"})
    keyring = AuditKeyring(load_keys(stack.home / "audit-keys.json").keys)
    signature = bytes.fromhex(certificate.key_id + certificate.signature)
    text = canonical_json(content).decode()
    assert keyring.check(signature, "certificate", text) is SignatureState.VALID
    assert keyring.check(signature, "certificate", text + " ") is SignatureState.WRONG
    for session_id in sessions:
        log = shell.data("session", "verify", session_id)
        assert log["ok"] and log["erased_payloads"] == log["events"] > 0
    assert shell.succeeds("chat", "-m", "hello again").strip(), "the agent runs again"
    browser = httpx2.AsyncClient(base_url=stack.url, headers={"Origin": stack.url})
    links = [shell.data("web", "--person", "ada")["url"].partition("#link=")[2] for _ in range(2)]
    signed_in = await browser.post("/v1/web/session", json={"link": links[0]})
    browser.headers["X-Choir-Page-Key"] = signed_in.json()["key"]
    assert (await browser.get("/v1/dms/console/history")).status_code == 200
    again = shell.data("person", "erase", "ada", "--yes")
    assert (again["removed"]["web_sessions"], again["removed"]["web_links"]) == (1, 1)
    assert (await browser.get("/v1/dms/console/history")).status_code == 401
    assert (await browser.post("/v1/web/session", json={"link": links[1]})).status_code == 401
    await browser.aclose()
    assert (again["person"], again["dms"]) == ("ada", ["console"])
    assert len(again["sessions"]) == len(sessions) + 1 and again["remaining"] == {}
