"""Row R13: a backup of the whole home taken under load and restored elsewhere. Chains verify, agents
resume, and all that was acknowledged before it is answered once."""

import asyncio
import json
import shutil
from collections import Counter

import pytest

from choir_common.http.client import make_client
from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    running_stack_in_thread,
    sessions_of,
    verify,
)

TALKERS = 4


async def talk(user: ConsoleUser, acknowledged: list[str], stop: asyncio.Event, name: str) -> None:
    """Say one thing after the other and hear the answers until told to stop."""
    number = 0
    while not stop.is_set():
        inbox_id = await user.says(f"{name}, number {number}")
        acknowledged.append(inbox_id)
        await user.wait_for_answer(inbox_id)
        number += 1


async def answers_in(stack: EmbeddedStack) -> Counter[str]:
    """Return how often each message is answered in the logs, by its inbox id; 0 if it only stands there."""
    found: Counter[str] = Counter()
    async with make_client(stack.endpoint) as client:
        for session in await sessions_of(stack):
            after = 0
            while True:
                answer = await client.get(
                    f"/v1/sessions/{session['session_id']}/events",
                    params={"after": after, "limit": 500},
                )
                answer.raise_for_status()
                items = answer.json()["items"]
                found.update(
                    {i["payload"]["inbox_id"]: 0 for i in items if i["type"] == "user_msg"}
                )
                replies = [i["payload"] for i in items if i["type"] == "reply"]
                found.update(
                    r["answers"] for r in replies if r["answers"] and r["kind"] != "notice"
                )
                if not items:
                    break
                after = items[-1]["rev"]
    return found


@pytest.mark.nightly  # tests/service/local/test_home_backup.py restores a home, too
async def test_a_backup_taken_under_load_goes_on_elsewhere() -> None:
    elsewhere = make_short_directory("choir-")
    file, phrase = elsewhere / "choir.tar.age", elsewhere / "phrase"
    phrase.write_text("correct horse battery\n")
    passphrase = ("--passphrase-file", str(phrase))
    home = elsewhere / "home"
    try:
        async with running_stack_in_thread() as first:
            acknowledged: list[str] = []
            stop = asyncio.Event()
            async with console_user(first.endpoint) as user:
                talking = [
                    asyncio.create_task(talk(user, acknowledged, stop, f"talker {number}"))
                    for number in range(TALKERS)
                ]
                while len(acknowledged) < 15:
                    await asyncio.sleep(0.05)
                promised = list(acknowledged)
                said = await asyncio.to_thread(
                    first.run, "backup", "create", "--out", str(file), *passphrase, "--json"
                )
                assert json.loads(said)["secrets"]
                assert len(acknowledged) > len(promised), "the backup stopped the talk"
                stop.set()
                await asyncio.gather(*talking)
            sessions = {row["session_id"] for row in await sessions_of(first)}

            port = free_port()
            second = EmbeddedStack(home, port, {**first.env, "CHOIR_HTTP_PORT": str(port)})
            await asyncio.to_thread(first.run, "down")
            done = json.loads(
                await asyncio.to_thread(
                    second.run, "backup", "restore", str(file), *passphrase, "--json"
                )
            )
            assert done["sessions"] == len(sessions)
            try:
                await asyncio.to_thread(second.run, "up", "--detach")
                async with console_user(second.endpoint) as user:
                    answered = await user.wait_for_answer(await user.says("are you still there?"))
                    assert answered.text
                kept = await sessions_of(second)
                assert sessions <= {row["session_id"] for row in kept}
                for row in kept:
                    found = await verify(second, row["session_id"])
                    assert found.ok, found.reason
                answers = await answers_in(second)
                assert {each: answers[each] for each in promised} == dict.fromkeys(promised, 1)
                print(
                    f"{len(promised)} acknowledged before the backup, each answered once after it"
                )
            finally:
                await asyncio.to_thread(second.run, "down", check=False)
    finally:
        shutil.rmtree(elsewhere, ignore_errors=True)
