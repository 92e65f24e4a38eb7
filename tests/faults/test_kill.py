"""`kill -9` each process in the middle of a turn, at random points (GUARANTEES R1, R2, R6).

After every kill the stack recovers, and then: each accepted message has exactly one answer in the log,
the person heard it once, no tool with a recorded result ran twice, and every chain verifies. The effect
ledger is a file that each tool call appends one line to.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from choir_common.wire.events import Event, Reply, ToolResultCommitted, parse_payload
from tests.faults.mending import MEND_WITHIN_S, await_return, pid_of
from tests.support.nightly import nightly_from
from tests.support.replay import assert_replay_is_deterministic
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    read_log,
    running_stack,
    sessions_of,
    verify,
)

# `make nightly` kills each process twenty times
KILLS = int(os.environ.get("CHOIR_KILLS", "2"))
CALLS = 3
TURN_S = 0.8
VICTIMS = ("agent", "control", "postgres", "gateway", "memory", "nats")


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as stack:
        yield stack


def order(mark: str) -> str:
    """Return a message that makes the agent append `mark` to the ledger in three calls in a row."""
    call = json.dumps({"command": f"echo {mark} >> ledger.txt"})
    return f"#delay=60 #tools={CALLS} #tool=choir.exec {call}"


async def whole_log(stack: EmbeddedStack) -> list[Event]:
    """Return the events of all sessions, each session verified and replayed."""
    events: list[Event] = []
    for session in await sessions_of(stack):
        verdict = await verify(stack, session["session_id"])
        assert verdict.ok, verdict
        stored = await read_log(stack, session["session_id"])
        assert_replay_is_deterministic(stored)
        events += stored
    return events


async def kill_once(stack: EmbeddedStack, user: ConsoleUser, victim: str, mark: str) -> str:
    """Start a turn, kill the victim somewhere in it, wait for the answer; return the inbox id."""
    old_pid = await pid_of(stack, victim)
    async with asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(user.says(order(mark), key=mark))
        await asyncio.sleep(random.uniform(0, TURN_S))
        await stack.kill(victim)
    inbox_id = saying.result()
    try:
        await user.wait_for_answer(inbox_id, MEND_WITHIN_S)
    except TimeoutError as error:
        raise AssertionError(f"{mark} was never answered\n{stack.logs(25)}") from error
    await await_return(stack, victim, old_pid)
    return inbox_id


@pytest.mark.timeout(max(900, 300 * KILLS))
@pytest.mark.parametrize("victim", nightly_from(2, VICTIMS))
async def test_a_kill_in_the_middle_of_a_turn_loses_and_doubles_nothing(
    stack: EmbeddedStack, victim: str
) -> None:
    marks = {f"{victim}-{number}": "" for number in range(KILLS)}
    async with console_user(stack.endpoint) as user:
        for mark in marks:
            marks[mark] = await kill_once(stack, user, victim, mark)
        await asyncio.sleep(0.5)
        heard = Counter(message.outbox_id for message in user.heard)

    payloads = [parse_payload(event) for event in await whole_log(stack)]
    answers = Counter(p.answers for p in payloads if isinstance(p, Reply) and p.kind != "notice")
    assert {inbox_id: answers[inbox_id] for inbox_id in marks.values()} == dict.fromkeys(
        marks.values(), 1
    )
    assert set(heard.values()) == {1}
    check_ledger(stack, payloads, victim)


def check_ledger(stack: EmbeddedStack, payloads: list[object], victim: str) -> None:
    """Assert that each call with a result of its own ran once, and no interrupted one twice."""
    lines = (stack.home / "workspaces" / "main" / "ledger.txt").read_text().split()
    ran = Counter(line for line in lines if line.startswith(victim))
    done = [p for p in payloads if isinstance(p, ToolResultCommitted) and p.tool == "choir.exec"]
    assert len({result.call_id for result in done}) == len(done)
    succeeded = sum(1 for result in done if result.status == "success")
    interrupted = sum(1 for result in done if result.status == "interrupted")
    assert succeeded <= len(lines) <= succeeded + interrupted
    assert all(count <= CALLS for count in ran.values())
