"""`kill -9` the agent or control while core jobs are at work, at random points (GUARANTEES R1).

However often that happens: every job has exactly one terminal event and exactly one report to the user, no
effect is doubled, every message is answered, and every chain verifies. The effect ledger is a file that each
tool call appends one line to.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import pytest

from choir_common.wire.events import (
    CoreStarted,
    CoreStopped,
    EventPayload,
    Reply,
    ReportBegun,
    ToolResultCommitted,
    parse_payload,
)
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

# two jobs a kill: as many ends as the other faults' kills
KILLS = max(1, int(os.environ.get("CHOIR_KILLS", "4")) // 2)
JOBS = ("left", "right")
CALLS = 3
WORK_S = 1.5
P = TypeVar("P", bound=EventPayload)


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as stack:
        yield stack


def order(mark: str) -> str:
    """Return a message that starts two jobs; each appends its name to the ledger three times."""
    lines = []
    for job in JOBS:
        call = json.dumps({"command": f"echo {mark}-{job} >> ledger.txt"})
        task = f"#delay=60 #tools={CALLS} #tool=choir.exec {call}"
        lines.append(f"#spawn {mark}-{job}: {task}")
    return "\n".join(lines)


async def hear_reports(user: ConsoleUser, mark: str) -> None:
    """Wait until the user was told how each job of a round ended."""
    names = [f"'{mark}-{job}'" for job in JOBS]

    def told() -> bool:
        reports = [message.text for message in user.heard if message.kind == "report"]
        return all(any(name in text for text in reports) for name in names)

    async with asyncio.timeout(MEND_WITHIN_S), user.arrived:
        await user.arrived.wait_for(told)


async def kill_once(stack: EmbeddedStack, user: ConsoleUser, victim: str, mark: str) -> str:
    """Start two jobs, kill the victim somewhere in their work; return the message's inbox id."""
    old_pid = await pid_of(stack, victim)
    async with asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(user.says(order(mark), key=mark))
        await asyncio.sleep(random.uniform(0, WORK_S))
        await stack.kill(victim)
    try:
        await user.wait_for_answer(saying.result(), MEND_WITHIN_S)
        await hear_reports(user, mark)
    except TimeoutError as error:
        raise AssertionError(f"{mark} was not answered or reported\n{stack.logs(25)}") from error
    await await_return(stack, victim, old_pid)
    return saying.result()


@pytest.mark.timeout(max(600, 300 * KILLS))
# kills of control in the middle of a turn are in tests/faults/test_kill.py
@pytest.mark.parametrize("victim", nightly_from(1, ["agent", "control"]))
async def test_every_core_job_ends_once_and_is_reported_once(
    stack: EmbeddedStack, victim: str
) -> None:
    inbox_ids = []
    async with console_user(stack.endpoint) as user:
        for number in range(KILLS):
            inbox_ids.append(await kill_once(stack, user, victim, f"{victim}-{number}"))
        # what comes twice, or is said of a job again, comes soon
        await asyncio.sleep(1)
        heard = Counter(message.outbox_id for message in user.heard)
    assert set(heard.values()) == {1}

    log: list[EventPayload] = []
    for session in await sessions_of(stack):
        verdict = await verify(stack, session["session_id"])
        assert verdict.ok, verdict
        events = await read_log(stack, session["session_id"])
        state = assert_replay_is_deterministic(events)
        assert (state.jobs, state.due, state.turn) == ((), (), None)
        log += [parse_payload(event) for event in events]
    check_the_jobs(log, [f"{victim}-{n}-{job}" for n in range(KILLS) for job in JOBS])
    answers = Counter(r.answers for r in _all(log, Reply) if r.kind != "notice")
    assert [answers[inbox_id] for inbox_id in inbox_ids] == [1] * KILLS
    check_ledger(stack, log, victim)


def check_the_jobs(log: list[EventPayload], names: list[str]) -> None:
    """Assert that each job started, ended and was reported once."""
    started = {p.job_id: p.job_name for p in _all(log, CoreStarted)}
    assert Counter(started.values()) >= Counter(names)
    assert len(set(started.values())) == len(started)
    stopped = Counter(p.job_id for p in _all(log, CoreStopped))
    assert stopped == Counter(dict.fromkeys(started, 1))
    begun = {p.turn_id: p.subject for p in _all(log, ReportBegun)}
    told = Counter(begun[r.turn_id] for r in _all(log, Reply) if r.kind == "report" and r.turn_id)
    assert told == Counter(dict.fromkeys(started, 1))


def check_ledger(stack: EmbeddedStack, log: list[EventPayload], victim: str) -> None:
    """Assert that each call with a result of its own ran once, and no interrupted one twice."""
    lines = (stack.home / "workspaces" / "main" / "ledger.txt").read_text().split()
    ran = Counter(line for line in lines if line.startswith(victim))
    done = [r for r in _all(log, ToolResultCommitted) if r.tool == "choir.exec"]
    assert len({result.call_id for result in done}) == len(done)
    succeeded = sum(result.status == "success" for result in done)
    interrupted = sum(result.status == "interrupted" for result in done)
    assert succeeded <= len(lines) <= succeeded + interrupted
    assert all(count <= CALLS for count in ran.values())


def _all(log: list[EventPayload], kind: type[P]) -> list[P]:
    return [payload for payload in log if isinstance(payload, kind)]
