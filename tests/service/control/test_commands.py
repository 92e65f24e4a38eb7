"""Users and operators reach an agent while it works: inject, cancel, compact, by command or by `/v1`."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from choir_common.wire.events import CoreStarted, CoreStopped
from choir_common.wire.messages import InboundAccepted
from choir_common.wire.rpc import ModelFailure, StatusReport
from choir_common.wire.signals import (
    CancelSignal,
    CompactSignal,
    ConfigChangedSignal,
    InjectSignal,
    SignalBody,
)
from choir_control.log.signals.store import SignalStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import serve
from tests.service.control.world import OPERATOR_TOKEN, World
from tests.support.shell import ChoirctlRunner


def started(name: str) -> CoreStarted:
    """Return the event with which a core job begins."""
    return CoreStarted(job_id=f"j-{name}", job_name=name, call_id=name, dm="console", task_spec="x")


async def run_jobs(agent: AgentHand, *names: str) -> None:
    """Have core jobs of these names stand in the log."""
    for name in names:
        agent.add(started(name))
    await agent.flush()


async def inbox_rows(world: World) -> int:
    found = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.inbox WHERE closed_at IS NULL"
    )
    return int(found)


def undated(body: SignalBody) -> SignalBody:
    """Return the signal without its time, which must be that of the test."""
    if not isinstance(body, InjectSignal):
        return body
    assert body.sent_at is not None
    assert abs((datetime.now(UTC) - body.sent_at).total_seconds()) < 600
    return body.model_copy(update={"sent_at": None})


async def test_a_command_becomes_a_signal_and_no_message(world: World, agent: AgentHand) -> None:
    await run_jobs(agent, "read-a")
    async with agent.signals() as stream:
        for text, body in (
            ("/inject in French, please", InjectSignal(text="in French, please")),
            ("/cancel read-a", CancelSignal(job="read-a")),
            ("/cancel", CancelSignal()),
            ("/compact", CompactSignal()),
        ):
            accepted = await world.say(text, text)
            assert accepted.command == text.split()[0] and accepted.note
            assert accepted.agent_state == "running"
            assert undated((await asyncio.wait_for(anext(stream), 60)).body) == body
    assert await inbox_rows(world) == 0
    view = (await world.get("/v1/agents/main")).json()
    assert view["queued_messages"] == 0


async def test_a_repeated_command_is_obeyed_once(world: World, agent: AgentHand) -> None:
    first = await world.say("/inject once", "u1")
    again = await asyncio.gather(*(world.say("/inject once", "u1") for _ in range(4)))
    assert all(a.duplicate and a.inbox_id == first.inbox_id for a in again)
    open_ = await SignalStore(world.database).list_pending(agent.spec.session_id, "console", 0, 10)
    assert len(open_) == 1


async def test_commands_and_messages_reach_the_agent_in_the_order_they_came(
    world: World, agent: AgentHand
) -> None:
    async with agent.signals() as stream:
        said = [f"/inject {n}" if n % 2 else f"message {n}" for n in range(20)]
        await asyncio.gather(*(world.say(text, text) for text in said))
        seqs = [(await asyncio.wait_for(anext(stream), 60)).seq for _ in said]
    assert seqs == sorted(seqs) and len(set(seqs)) == 20


async def test_what_is_only_asked_is_answered_at_once(world: World, agent: AgentHand) -> None:
    await agent.call("REPORT_STATUS", StatusReport(lane="edge", state="EDGE_IDLE"))
    await agent.call("REPORT_STATUS", StatusReport(lane="core:read", state="CORE_REASONING"))
    jobs = await world.say("/jobs", "u1")
    assert jobs.note == "main: idle\n- read: thinking" and jobs.inbox_id == ""
    assert "/inject <text>" in ((await world.say("/help", "u2")).note or "")
    assert "There is no command /frob" in ((await world.say("/frob", "u3")).note or "")
    assert "An argument is missing" in ((await world.say("/inject", "u4")).note or "")
    assert await SignalStore(world.database).read_newest_seq() == 0


async def test_a_model_that_does_not_answer_is_named_with_what_mends_it(
    world: World, agent: AgentHand
) -> None:
    words = "gpt-x at http://box/v1: connection refused. Check that this address is up."
    failure = ModelFailure(model="gpt-x", since=datetime.now(UTC), words=words)
    report = StatusReport(lane="edge", state="EDGE_IDLE", model_failure=failure)
    await agent.call("REPORT_STATUS", report)
    assert f"not responded for 0 min: {words}" in ((await world.say("/status", "u1")).note or "")
    view = (await world.get("/v1/agents/main")).json()
    assert view["lanes"][0]["model_failure"]["words"] == words


async def test_continue_is_a_message_for_the_agent(world: World, agent: AgentHand) -> None:
    accepted = await world.say("/continue", "u1")
    assert accepted.command is None
    assert (await agent.next_message()).text == "/continue"


async def test_a_command_without_a_running_agent_does_nothing_and_says_so(world: World) -> None:
    accepted: InboundAccepted = await world.say("/inject hello", "u1", dm="second")
    assert accepted.command == "/inject" and "nothing was done" in (accepted.note or "")
    assert await SignalStore(world.database).read_newest_seq() == 0
    assert "other is not running" in ((await world.say("/jobs", "u2", dm="second")).note or "")


async def test_a_command_waits_for_an_agent_that_is_being_started_again(
    world: World, agent: AgentHand
) -> None:
    await run_jobs(agent, "read")
    world.runtime.refuse_starts = True
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "crashed")
    accepted = await world.say("/cancel read", "u1")
    # between two attempts, or in the middle of one
    assert "crashed" in (accepted.note or "") or accepted.agent_state == "starting"
    world.runtime.refuse_starts = False
    resumed = await world.agent(starts=2)
    await resumed.hello()
    assert (await resumed.next_signal()).body == CancelSignal(job="read")


async def post(world: World, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await world.post(path, json=body)
    return answer.status_code, answer.json()


async def test_an_operator_tells_a_running_agent(world: World, agent: AgentHand) -> None:
    await run_jobs(agent, "read")
    async with agent.signals() as stream:
        for verb, body, expected in (
            ("inject", {"text": "hurry"}, InjectSignal(text="hurry")),
            ("cancel", {"job": "read"}, CancelSignal(job="read")),
            ("cancel", {}, CancelSignal()),
            ("compact", {"lane": "core:read"}, CompactSignal(lane="core:read")),
            ("compact", {"session_id": agent.spec.session_id}, CompactSignal()),
        ):
            status, told = await post(world, f"/v1/agents/main/{verb}", **body)
            signal = await asyncio.wait_for(anext(stream), 60)
            assert status == 202 and told["note"] and told["signal"] == signal.seq
            assert undated(signal.body) == expected


async def test_an_operator_reaches_one_conversation_of_an_agent(
    world: World, agent: AgentHand
) -> None:
    await serve(world, "second")
    for verb, body, words in (
        ("inject", {"text": "hurry", "dm": "phone"}, "main does not talk in phone now"),
        ("cancel", {"job": "read", "dm": "second"}, "main has no job 'read'"),
        ("compact", {"lane": "edge", "dm": "second"}, "not both"),
    ):
        status, problem = await post(world, f"/v1/agents/main/{verb}", **body)
        assert status in (400, 404) and words in problem["detail"]
    shell = ChoirctlRunner(world.home, {"CHOIR_URL": world.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN})

    def use_commands() -> None:
        shell.succeeds("agent", "inject", "main", "hurry", "--dm", "second")
        shell.succeeds("agent", "cancel", "main", "--dm", "second")
        shell.succeeds("session", "compact", agent.spec.session_id, "--dm", "second")

    async with agent.beating(), agent.signals() as stream:
        await asyncio.to_thread(use_commands)
        async with asyncio.timeout(60):
            bodies = [(await anext(stream)).body for _ in range(4)]
    assert [undated(body) for body in bodies if not isinstance(body, ConfigChangedSignal)] == [
        InjectSignal(text="hurry", dm="second"),
        CancelSignal(dm="second"),
        CompactSignal(dm="second"),
    ]


async def test_a_job_that_does_not_run_is_refused_with_the_names_there_are(
    world: World, agent: AgentHand
) -> None:
    await run_jobs(agent, "read", "write", "read-mail")
    ended = {"job_id": "j-write", "job_name": "write", "outcome": "completed"}
    agent.add(CoreStopped.model_validate({**ended, "steps": 1, "duration_ms": 1.0}))
    await agent.flush()
    words = "main has no job 'raed'. Its jobs are: read, read-mail. Nothing was done."
    accepted = await world.say("/cancel raed", "u1")
    assert (accepted.note, accepted.inbox_id) == (words, "")
    for verb, body in (("cancel", {"job": "raed"}), ("compact", {"lane": "core:raed"})):
        status, problem = await post(world, f"/v1/agents/main/{verb}", **body)
        assert (status, problem["detail"]) == (404, words)
    # one that has ended is none to cancel
    assert "no job 'write'" in ((await world.say("/cancel write", "u2")).note or "")
    assert await SignalStore(world.database).read_newest_seq() == 0


async def test_without_any_job_a_cancel_by_name_says_so(world: World, agent: AgentHand) -> None:
    note = (await world.say("/cancel nosuch", "u1")).note
    assert note == "main has no job 'nosuch': it runs no jobs now. Nothing was done."


async def test_an_operator_is_told_why_an_agent_cannot_be_told(
    world: World, agent: AgentHand
) -> None:
    status, problem = await post(world, "/v1/agents/other/inject", text="x")
    assert status == 409 and "not running" in problem["detail"]
    assert (await post(world, "/v1/agents/nobody/cancel"))[0] == 404
    assert (await post(world, "/v1/agents/main/inject"))[0] == 400
    assert (await post(world, "/v1/agents/main/inject", text=""))[0] == 400
    status, problem = await post(world, "/v1/agents/main/compact", session_id="ses_gone")
    assert status == 409 and agent.spec.session_id in problem["detail"]
    assert await SignalStore(world.database).read_newest_seq() == 0


async def test_the_commands_are_listed_for_completion(world: World) -> None:
    rows = {row["name"]: row for row in (await world.get("/v1/commands")).json()["items"]}
    assert rows["/start"]["scope"] == "admin" and rows["/stop"]["choirctl"] == "agent stop"
    assert rows["session verify"]["scope"] == "operator"

    async def names(dm: str) -> list[str]:
        listed = (await world.get("/v1/commands", params={"dm": dm})).json()["items"]
        return [row["name"] for row in listed]

    assert {"/inject", "/continue", "/help"} < set(await names("second"))
    assert set(await names("console")) - set(await names("second")) >= {"/start", "/agent list"}
    assert (await world.get("/v1/commands", params={"dm": "nobody"})).status_code == 404


async def test_old_signals_are_pruned_and_open_ones_stay(world: World, agent: AgentHand) -> None:
    signals = SignalStore(world.database)
    for _ in range(5):
        assert await signals.send(agent.spec.session_id, CompactSignal())
    await world.database.execute(
        "UPDATE choir_control.signals SET done_at = now() - interval '2 days' WHERE seq % 2 = 0"
    )
    assert await signals.prune(timedelta(days=1), 1) == 1
    assert await signals.prune(timedelta(days=1), 100) == 1
    assert len(await signals.list_pending(agent.spec.session_id, "", 0, 10)) == 3
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await world.until_status(agent.spec.session_id, "stopping")
    world.runtime.die("main")
    assert (await stopping).json()["state"] == "stopped"
    # killed while it stopped, so it may have left work open; a second stop gives that up
    assert (await world.post("/v1/agents/main/stop")).status_code == 200
    assert await signals.send(agent.spec.session_id, CompactSignal()) is None
    assert await signals.prune(timedelta(0), 100) == 4
