"""Approvals: stored once, decided once by the first decision, and announced in the same transaction."""

import asyncio
import json
import time
from datetime import timedelta

import pytest

from choir_common.approvals import request_digest, request_lines
from choir_common.clients.control import NatsControlClient
from choir_common.clock import Clock, SystemClock
from choir_common.errors import Conflict, InvalidRequest, RateLimited
from choir_common.wire.events import ApprovalDecided
from choir_common.wire.messages import ButtonPress
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalKind, ApprovalRequest, ApprovalResponse, TerminateRequest
from choir_common.wire.signals import ApprovalResolvedSignal
from choir_control.api.rpc.app import MAX_DELAY_S
from choir_control.api.rpc.rate_limits import APPROVAL_LIMIT
from choir_control.approvals.service import ApprovalExpiry, ApprovalService
from choir_control.approvals.store import MAX_PENDING, ApprovalStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import OPERATOR_TOKEN, World, until
from tests.support.approvals import (
    IdleProposalRunner,
    SilentOutbox,
    configuration_with_timeout,
)
from tests.support.preloaded_choirctl import run_choirctl

PAYLOAD: JsonObject = {"spec": {"name": "wash", "n": 1e16}, "reason": "because"}


async def ask(
    agent: AgentHand,
    call_id: str = "c1",
    payload: JsonObject = PAYLOAD,
    kind: ApprovalKind = "skill",
) -> str:
    """Ask for a decision as the agent would; return the request's id."""
    request = ApprovalRequest(request_type=kind, call_id=call_id, payload=payload)
    answer = await agent.call("REQUEST_APPROVAL", request)
    return ApprovalResponse.model_validate_json(answer).approval_id


def make_desk(world: World) -> tuple[ApprovalStore, ApprovalService]:
    """Make another process's view of the same table."""
    assert world.control is not None
    store = ApprovalStore(world.database, world.control.services.configuration)
    return store, ApprovalService(
        store,
        signal_locks=SignalLocks(),
        notifier=Notifier(),
        outbox=SilentOutbox(),
        proposals=IdleProposalRunner(),
    )


def make_expiry(
    store: ApprovalStore, approvals: ApprovalService, timeout: timedelta, clock: Clock
) -> ApprovalExpiry:
    """Make another process's timer of the same table."""
    return ApprovalExpiry(
        store,
        approvals=approvals,
        configuration=configuration_with_timeout(timeout),
        clock=clock,
    )


async def decides(desk: ApprovalService, approval_id: str) -> bool:
    """Approve as a second service would; return whether that decided."""
    try:
        await desk.decide(approval_id, "approved", "dm:console")
    except Conflict as error:
        by_whom = (" by operator already, ", " expired without a decision, ")
        assert any(words in error.message for words in by_whom), error.message
        return False
    return True


async def test_a_decision_is_stored_with_its_signal_and_reaches_the_agent(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    async with agent.signals() as stream:
        answer = await world.post(f"/v1/approvals/{approval}/approve")
        signal = await asyncio.wait_for(anext(stream), 60)
    assert signal.body == ApprovalResolvedSignal(approval_id=approval, status="approved")
    decided = answer.json()
    assert (decided["status"], decided["decided_by"]) == ("approved", "operator")
    assert decided["digest"] == request_digest("skill", PAYLOAD) and decided["resolved_at"]
    shown = (await world.get(f"/v1/approvals/{approval}")).json()
    how_far = {"state", "detail"}  # carrying it out begins at once
    assert {k: v for k, v in shown.items() if k not in how_far} == {
        k: v for k, v in decided.items() if k not in how_far
    }
    again = await agent.call(
        "REQUEST_APPROVAL",
        ApprovalRequest(request_type="skill", call_id="c1", payload=PAYLOAD),
    )
    assert ApprovalResponse.model_validate_json(again).status == "approved"
    agent.add(ApprovalDecided(approval_id=approval, status="approved", what="x", dm="console"))
    await agent.flush()
    assert await open_signals(world) == 0


async def test_a_request_is_shown_as_the_lines_that_its_digest_covers(
    world: World, agent: AgentHand
) -> None:
    payload: JsonObject = {"spec": {"name": "wa\u202esh"}, "reason": "zero\u200bwidth"}
    approval = await ask(agent, payload=payload)
    shown = (await world.get(f"/v1/approvals/{approval}")).json()
    assert shown["intact"] and shown["subject"] == "wa<U+202E>sh"
    assert shown["lines"] == [
        {"kind": line.mark or "plain", "text": line.text}
        for line in request_lines("skill", payload, {})
    ]
    assert shown["lines"][0]["text"] == "reason: zero<U+200B>width"
    [listed] = (await world.get("/v1/approvals")).json()["items"]
    assert listed["lines"] == [] and listed["subject"] == shown["subject"]
    await world.database.execute(
        'UPDATE choir_control.pending_approvals SET payload = \'{"reason": "other"}\''
    )
    assert not (await world.get(f"/v1/approvals/{approval}")).json()["intact"]


async def open_signals(world: World) -> int:
    """Count the decisions that wait to be taken up."""
    return int(
        await world.database.fetchval(
            "SELECT count(*) FROM choir_control.signals "
            "WHERE done_at IS NULL AND body ->> 'kind' = 'approval_resolved'"
        )
    )


@pytest.mark.usefixtures("wide_pools")
async def test_many_deciders_and_the_clock_at_once_make_exactly_one_decision(
    world: World, agent: AgentHand
) -> None:
    store, desk = make_desk(world)
    expiry = make_expiry(store, desk, timedelta(0), SystemClock())
    # on a busy machine this lasts longer than a silent agent has
    async with agent.beating():
        for number in range(MAX_PENDING):
            approval = await ask(agent, f"c{number}")
            async with asyncio.TaskGroup() as tasks:
                taps = [
                    tasks.create_task(world.post(f"/v1/approvals/{approval}/{word}"))
                    for word in ("approve", "reject", "approve", "reject")
                ]
                phone = tasks.create_task(decides(desk, approval))
                clock = tasks.create_task(expiry.expire_overdue())
            codes = sorted(tap.result().status_code for tap in taps)
            assert set(codes) <= {200, 409}
            assert codes.count(200) + phone.result() + clock.result() == 1
            shown = (await world.get(f"/v1/approvals/{approval}")).json()
            told = await world.database.fetch(
                "SELECT body ->> 'status' AS status FROM choir_control.signals "
                "WHERE body ->> 'approval_id' = $1",
                approval,
            )
            assert [row["status"] for row in told] == [shown["status"]]


async def test_what_nobody_decides_expires_when_time_is_up_and_is_not_called_rejected(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    await world.database.execute(
        "UPDATE choir_control.pending_approvals SET waited = interval '31 minutes'"
    )

    async def expired() -> bool:
        shown = (await world.get(f"/v1/approvals/{approval}")).json()
        return bool(shown["status"] == shown["state"] == "expired")

    async with agent.beating():
        # by choird's own clock, in its own time
        await until(expired)
        again = ApprovalRequest(request_type="skill", call_id="c1", payload=PAYLOAD)
        answer = await agent.call("REQUEST_APPROVAL", again)
    told = await world.database.fetchval("SELECT body ->> 'status' FROM choir_control.signals")
    assert told == "expired"
    assert ApprovalResponse.model_validate_json(answer).status == "expired"
    late = await world.post(f"/v1/approvals/{approval}/approve")
    assert late.status_code == 409 and "expired without a decision" in late.json()["detail"]


class SteppedClock(SystemClock):
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


async def test_no_jump_of_a_clock_and_no_night_ends_a_request_but_only_time_to_answer(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    (store, desk), clock = make_desk(world), SteppedClock()
    expiry = make_expiry(store, desk, timedelta(minutes=30), clock)
    for days in ("+ interval '300 days'", "- interval '300 days'"):
        # what a row of another time looks like to a wall clock that was set
        await world.database.execute(
            f"UPDATE choir_control.pending_approvals SET created_at = created_at {days}"
        )
        assert await expiry.expire_overdue() == 0
    clock.at += 86_400.0  # the process stood still for a day, and nobody could have answered
    assert await expiry.expire_overdue() == 0
    for _ in range(100):
        clock.at += 10.0
        assert await expiry.expire_overdue() == 0
    # the next choird goes on where this one was
    later = make_expiry(store, desk, timedelta(minutes=30), clock)
    looks = 0
    while not await later.expire_overdue():
        clock.at += 10.0
        looks += 1
        assert looks < 100
    assert looks > 60
    assert (await world.get(f"/v1/approvals/{approval}")).json()["state"] == "expired"


async def test_a_decision_holds_for_what_was_shown_and_nothing_else(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    stale = await world.post(f"/v1/approvals/{approval}/approve", json={"digest": "0" * 64})
    assert stale.status_code == 409
    shown = (await world.get(f"/v1/approvals/{approval}")).json()
    assert shown["status"] == "pending"
    with pytest.raises(Conflict):
        await ask(agent, payload={**PAYLOAD, "reason": "another"})
    with pytest.raises(Conflict):
        await ask(agent, kind="config_change")
    right = await world.post(f"/v1/approvals/{approval}/approve", json={"digest": shown["digest"]})
    assert right.status_code == 200
    with pytest.raises(Conflict):
        await ask(agent, payload={"spec": {"name": "other"}})


async def test_a_flood_of_questions_ends_at_its_bound_and_goes_on_after_a_decision(
    world: World, agent: AgentHand
) -> None:
    # fewer at once than a session may have running, so that it is the open requests that are bounded
    at_once = asyncio.Semaphore(APPROVAL_LIMIT.at_once // 2)

    async def ask_in_turn(call_id: str) -> str:
        async with at_once:
            return await ask(agent, call_id)

    results = await asyncio.gather(
        *(ask_in_turn(f"c{number}") for number in range(2 * MAX_PENDING)), return_exceptions=True
    )
    taken = [found for found in results if isinstance(found, str)]
    assert len(taken) == MAX_PENDING
    assert all(isinstance(found, str | RateLimited) for found in results)
    # those that stand are still answered, however often they are asked for
    assert await ask(agent, f"c{results.index(taken[0])}") == taken[0]
    await world.post(f"/v1/approvals/{taken[0]}/reject")
    assert await ask(agent, "next")


async def test_who_asks_too_often_waits_for_the_answer(agent: AgentHand) -> None:
    for number in range(MAX_PENDING):
        await ask(agent, f"c{number}")
    start = time.monotonic()
    with pytest.raises(RateLimited):
        await ask(agent, "one more")
    assert time.monotonic() - start >= MAX_DELAY_S, "else asking on and on is free"


async def test_what_cannot_be_shown_to_a_human_is_refused(agent: AgentHand) -> None:
    big: JsonObject = {"text": "x" * 200_001}
    for call_id, payload in (("", PAYLOAD), ("x" * 201, PAYLOAD), ("a\x00b", PAYLOAD), ("c", big)):
        with pytest.raises(InvalidRequest):
            await ask(agent, call_id, payload)


async def test_a_session_that_is_over_is_told_nothing(world: World, agent: AgentHand) -> None:
    approval = await ask(agent)
    await world.database.execute("UPDATE choir_control.sessions SET status = 'stopped'")
    answer = await world.post(f"/v1/approvals/{approval}/approve")
    assert answer.json()["status"] == "approved" and await open_signals(world) == 0


async def test_an_unknown_request_is_not_found_and_an_agent_cannot_decide(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    for unknown in ("appr_none", "x" * 300, "%00", "..%2f..", "' OR 1=1 --"):
        for word in ("approve", "reject"):
            answer = await world.post(f"/v1/approvals/{unknown}/{word}")
            assert answer.status_code == 404, answer.text
    malformed = await world.post(f"/v1/approvals/{approval}/approve", json={"digest": 3})
    assert malformed.status_code == 400
    forged = await agent.client.post(f"/v1/approvals/{approval}/approve", headers=agent.headers)
    assert forged.status_code == 404
    assert (await world.get(f"/v1/approvals/{approval}")).json()["status"] == "pending"


async def choirctl(world: World, *args: str) -> tuple[int, str, str]:
    """Run `choirctl approval` over TCP; return its exit code and what it said."""
    env = {"CHOIR_URL": world.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN}
    done = await asyncio.to_thread(run_choirctl, "approval", *args, env=env)
    return done.returncode, done.stdout, done.stderr


async def test_an_operator_lists_reads_and_decides_on_the_command_line(
    world: World, agent: AgentHand
) -> None:
    # a command takes a second or more on a busy machine, longer than an agent may be silent
    async with agent.beating():
        assert "No request is pending" in (await choirctl(world, "list"))[2]
        trick = {"reason": "\x1b[2J[red]harmless[/] \u202e"}
        first, second = await ask(agent, "c1", {**trick}), await ask(agent, "c2")
        code, listed, _ = await choirctl(world, "list")
        assert code == 0 and first in listed and second in listed
        code, shown, _ = await choirctl(world, "approve", first)
        assert code == 0 and f"{first}: approved." in shown
        assert "\x1b" not in shown and "\u202e" not in shown and "[red]harmless[/]" in shown
        code, _, said = await choirctl(world, "reject", first)
        assert code == 5 and "approved by operator already" in " ".join(said.split())
        code, rejected, _ = await choirctl(world, "reject", second, "--json")
        assert code == 0 and json.loads(rejected)["status"] == "rejected"
        assert (await choirctl(world, "show", "appr_none"))[0] == 3
        late = await ask(agent, "c3")
        await world.database.execute(
            "UPDATE choir_control.pending_approvals SET status = 'expired', resolved_at = now(), "
            "decided_by = 'timeout' WHERE approval_id = $1",
            late,
        )
        code, _, said = await choirctl(world, "approve", late)
        assert code == 5 and "expired without a decision" in " ".join(said.split())
        assert second not in (await choirctl(world, "list"))[1]
        assert second in (await choirctl(world, "list", "--all"))[1]


async def test_who_approves_a_call_of_an_ended_session_reads_that_nothing_runs(
    world: World, agent: AgentHand
) -> None:
    call: JsonObject = {"tool": "house.door", "input": {}}
    for number in range(3):
        await ask(agent, f"c{number}", call, "call")
    first, second, third = [
        one["approval_id"]
        for one in sorted(
            (await world.get("/v1/approvals")).json()["items"], key=lambda one: one["created_at"]
        )
    ]
    in_time = (await world.post(f"/v1/approvals/{first}/approve")).json()
    assert in_time["detail"] == ""
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await world.until_status(agent.spec.session_id, "stopping")
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    await stopping
    await world.post("/v1/agents/main/stop")
    await world.until_status(agent.spec.session_id, "stopped")
    for shown in (
        (await world.get(f"/v1/approvals/{second}")).json(),
        (await world.post(f"/v1/approvals/{second}/approve")).json(),
    ):
        assert "has ended, so nothing runs" in shown["detail"], shown
    assert (await world.get(f"/v1/approvals/{first}")).json()["detail"] == ""
    note = (await world.say(f"/approve {third}", "u1")).note or ""
    assert "Approved" in note and "nothing runs" in note
    said = await world.database.fetchval(
        "SELECT text FROM choir_control.outbox WHERE text LIKE 'Approved by operator%' || $1 || '%'",
        second,
    )
    assert "nothing runs" in said and "continues" not in said


async def test_a_press_on_a_request_of_an_ended_session_is_answered_that_nothing_runs(
    world: World, agent: AgentHand
) -> None:
    await ask(agent, "c1", {"tool": "house.door", "input": {}}, "call")
    await world.delivered(1)
    yes = world.gateway.delivered[0].buttons[0].data
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await world.until_status(agent.spec.session_id, "stopping")
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    await stopping
    await world.post("/v1/agents/main/stop")
    await world.until_status(agent.spec.session_id, "stopped")
    press = ButtonPress(
        gateway="console",
        user_id="operator",
        chat_id="operator",
        message_id="m1",
        data=yes,
        callback_id="cb",
    )
    for _ in ("the first time", "repeated"):
        answer = (await NatsControlClient(world.bus).press(press)).answer
        assert answer.startswith("Approved.") and "nothing runs" in answer
