"""What a user says incognito is in no table, file or log of Choir once the session has ended."""

import asyncio
import gzip
import json
import os
import subprocess
from pathlib import Path

import orjson
import pytest

from choir_common.http.client import make_client
from tests.journey.test_memory import until_archived
from tests.support.stack import (
    EmbeddedStack,
    console_user,
    running_stack_in_thread,
    sessions_of,
    verify,
)

CANARY = "zanzibarquokka"
KNOWN = "marmaladefinch"
SECRET_SUMMARY = json.dumps({"summary": f"Ada spoke of {CANARY}.", "topics": []})
SUMMARY = json.dumps({"summary": "Ada spoke.", "topics": []})
REMEMBER = {"operation": "insert", "text": "{match.1}", "key": "user.pet"}
SCORE = {
    "rules": [
        # only what a session contains can be in its summary
        {"when": {"lane": "summary", "contains": CANARY}, "then": [{"say": SECRET_SUMMARY}]},
        {"when": {"lane": "summary"}, "then": [{"say": SUMMARY}]},
        {
            "when": {"regex": "remember: (.+)"},
            "then": [
                {"call": {"name": "choir.memory.upsert", "arguments": REMEMBER}},
                {"say": "Result: {result}"},
            ],
        },
        {
            "when": {"regex": "fail with (.+)"},
            "then": [
                {"call": {"name": "choir.fs.read", "arguments": {"path": "{match.1}.txt"}}},
                {"say": "Result: {result}"},
            ],
        },
    ],
    "otherwise": [{"say": "Noted: {user}"}],
}


def dump_database(stack: EmbeddedStack) -> str:
    """Return a plain pg_dump of the whole database, with the program of the server that runs."""
    server = Path(f"/proc/{stack.pid('postgres')}/exe").readlink()
    env = {**os.environ, "PGPASSWORD": stack.secret("postgres-admin")}
    done = subprocess.run(
        [str(server.parent / "pg_dump"), "--dbname", stack.dsn],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def files_with(home: Path, word: str) -> list[str]:
    """Return the files of the home that contain a word, except Postgres' own, which `pg_dump` reads."""
    found = []
    for path in home.rglob("*"):
        relative = path.relative_to(home)
        if relative.parts[:2] == ("data", "postgres") or not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        if word.encode() in content:
            found.append(str(relative))
    return found


async def switch(stack: EmbeddedStack, mode: str) -> None:
    """Switch the mode by choirctl; repeat while the last turn is still being finished."""
    async with asyncio.timeout(60):
        while True:
            said = await asyncio.to_thread(
                stack.run, "memory", "mode", "main", mode, "--json", check=False
            )
            if said and json.loads(said).get("mode"):
                return
            await asyncio.sleep(0.1)


async def until_erased(stack: EmbeddedStack, session_id: str) -> None:
    async with asyncio.timeout(60):
        while (await verify(stack, session_id)).erased_at is None:
            await asyncio.sleep(0.1)
        while CANARY in await asyncio.to_thread(dump_database, stack):
            await asyncio.sleep(0.1)


@pytest.mark.nightly  # tests/service/control/test_memory_modes.py looks everywhere, too
async def test_a_word_said_incognito_is_afterwards_nowhere(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(SCORE))
    async with running_stack_in_thread(score) as stack:
        async with console_user(stack.url, token=stack.secret("operator-token")) as user:
            assert "inserted" in await user.asks(f"remember: my pet is a {KNOWN}")
            await switch(stack, "incognito")
            assert CANARY in await user.asks(f"my secret is {CANARY}")
            assert "incognito" in await user.asks(f"remember: my secret is {CANARY}")
            await user.asks(f"fail with {CANARY}")
            private = str((await sessions_of(stack))[0]["session_id"])
            await switch(stack, "local")
            assert "Noted" in await user.asks("and now?")
        await until_erased(stack, private)
        await asyncio.to_thread(stack.run, "agent", "stop", "main")
        await until_archived(stack)
        verification = await verify(stack, private)
        assert verification.ok and verification.events > 10
        dump = await asyncio.to_thread(dump_database, stack)
        # the search itself works: what was said before is in memory
        assert KNOWN in dump and CANARY not in dump
        assert files_with(stack.home, CANARY) == []
        async with make_client(stack.endpoint) as client:
            query = {"store": "session", "query": CANARY, "mode": "text", "limit": 10}
            hits = (await client.post("/v1/agents/main/memory/search", json=query)).json()["hits"]
            exported = (await client.get("/v1/agents/main/memory/export")).text
        assert not any(CANARY in hit["text"] for hit in hits)
        assert CANARY not in exported and private not in exported and KNOWN in exported
