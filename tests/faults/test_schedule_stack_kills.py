"""`kill -9` of choird, the agent and the gateway around due times of a whole stack (GUARANTEES S40).

After each kill the stack recovers, and then each schedule has one run, which is done; each reminder was
delivered once, each prompt answered once, and each core job ran and was reported once.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_common.wire.events import (
    CoreStarted,
    CoreStopped,
    Reply,
    UserMessageStarted,
    parse_payload,
)
from choir_common.wire.schedules import ScheduleView
from tests.faults.mending import MEND_WITHIN_S, await_return, pid_of
from tests.support.stack import (
    EmbeddedStack,
    console_user,
    read_log,
    running_stack,
    sessions_of,
    verify,
)

# `make nightly` kills each process twenty times
KILLS = int(os.environ.get("CHOIR_SCHEDULE_STACK_KILLS", "1"))
VICTIMS = ("agent", "control", "gateway")
KINDS = ("remind", "remind", "remind", "prompt", "prompt", "job")
LEAD = timedelta(seconds=2)
SPREAD_S = 1.0
"""Seconds over which the due times, and the kill, are spread."""


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as stack:
        yield stack


async def add(client: httpx2.AsyncClient, kind: str, text: str, at: datetime) -> ScheduleView:
    """Add a schedule for one moment."""
    body = {"agent_id": "main", "kind": kind, "text": text, "timing": "at", "value": at.isoformat()}
    answer = await client.post("/v1/schedules", json=body)
    assert answer.status_code == 201, answer.text
    return ScheduleView.model_validate_json(answer.content)


async def show(client: httpx2.AsyncClient, schedule_id: int) -> ScheduleView | None:
    """Return a schedule with its runs, or None while control is down."""
    try:
        answer = await client.get(f"/v1/schedules/{schedule_id}")
    except httpx2.HTTPError:
        return None
    return ScheduleView.model_validate_json(answer.content) if answer.status_code == 200 else None


async def until_done(stack: EmbeddedStack, added: list[ScheduleView]) -> list[ScheduleView]:
    """Wait until the run of each schedule has its final state; return the schedules."""
    views: list[ScheduleView | None] = []
    try:
        async with asyncio.timeout(MEND_WITHIN_S), make_client(stack.endpoint) as client:
            while True:
                views = [await show(client, view.schedule_id) for view in added]
                ended = [view for view in views if view is not None and view.state == "ended"]
                runs = [run for view in ended for run in view.runs]
                if len(ended) == len(added) and all(run.ended_at for run in runs):
                    return ended
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        raise AssertionError(f"not done: {views}\n{stack.logs(25)}") from error


async def kill_once(stack: EmbeddedStack, victim: str, mark: str) -> list[ScheduleView]:
    """Add schedules for nearly the same time, and kill the victim around it; return their ends."""
    old_pid = await pid_of(stack, victim)
    first = datetime.now(UTC) + LEAD
    async with make_client(stack.endpoint) as client:
        added = [
            await add(
                client,
                kind,
                f"{mark} {number}",
                first + timedelta(seconds=random.uniform(0, SPREAD_S)),
            )
            for number, kind in enumerate(KINDS)
        ]
    delay = (first - datetime.now(UTC)).total_seconds() + random.uniform(-0.2, SPREAD_S)
    await asyncio.sleep(max(0.0, delay))
    await stack.kill(victim)
    ended = await until_done(stack, added)
    await await_return(stack, victim, old_pid)
    return ended


async def payloads_of(stack: EmbeddedStack) -> list[Any]:
    """Return the payloads of all sessions, each session verified."""
    found: list[Any] = []
    for session in await sessions_of(stack):
        verdict = await verify(stack, session["session_id"])
        assert verdict.ok, verdict
        found += [parse_payload(event) for event in await read_log(stack, session["session_id"])]
    return found


def check_messages(views: list[ScheduleView], payloads: list[Any]) -> None:
    """Assert that each prompt was taken up and answered once, and each job started and reported once."""
    runs = {
        kind: {run.run_id for view in views if view.kind == kind for run in view.runs}
        for kind in set(KINDS)
    }
    taken = Counter(p.inbox_id for p in payloads if isinstance(p, UserMessageStarted))
    answered = Counter(p.answers for p in payloads if isinstance(p, Reply) and p.answers)
    started = {p.answers: p.job_id for p in payloads if isinstance(p, CoreStarted)}
    stopped = Counter(p.job_id for p in payloads if isinstance(p, CoreStopped))
    reported = [p for p in payloads if isinstance(p, Reply) and p.kind == "report"]
    for run_id in runs["prompt"] | runs["job"]:
        assert taken[run_id] == 1, run_id
        assert answered[run_id] == (run_id in runs["prompt"]), run_id
    for run_id in runs["job"]:
        assert stopped[started[run_id]] == 1, run_id
    assert len([p for p in payloads if isinstance(p, CoreStarted)]) == len(reported)


@pytest.mark.nightly  # tests/faults/test_schedule_kills.py kills around due times, too
@pytest.mark.timeout(max(900, 300 * KILLS))
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_kill_around_due_times_loses_and_doubles_no_run(
    stack: EmbeddedStack, victim: str
) -> None:
    views: list[ScheduleView] = []
    async with console_user(stack.endpoint) as user:
        await user.asks("hello")
        for number in range(KILLS):
            views += await kill_once(stack, victim, f"{victim} {number}")
        texts = [view.text for view in views if view.kind == "remind"]
        async with asyncio.timeout(MEND_WITHIN_S), user.arrived:
            await user.arrived.wait_for(
                lambda: set(texts) <= {message.text for message in user.heard}
            )
        # what comes twice comes soon
        await asyncio.sleep(1)
        heard = Counter(message.text for message in user.heard)
    assert {text: heard[text] for text in texts} == dict.fromkeys(texts, 1)
    for view in views:
        assert [run.state for run in view.runs] == ["done"], view
    async with asyncio.timeout(MEND_WITHIN_S):
        while True:
            payloads = await payloads_of(stack)
            jobs = sum(isinstance(p, CoreStarted) for p in payloads)
            reports = sum(isinstance(p, Reply) and p.kind == "report" for p in payloads)
            if reports >= jobs:
                break
            await asyncio.sleep(0.2)
    check_messages(views, payloads)
