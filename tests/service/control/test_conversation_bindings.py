"""An agent with several conversations: bound by the configuration, answered and notified each on its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.errors import InvalidRequest
from choir_common.wire.activity import Card, DmActivity, Draft, Idle, Typing
from choir_common.wire.events import CoreReported, CoreStarted, Reply, SessionSuspended
from choir_common.wire.messages import ButtonPress
from choir_common.wire.rpc import (
    ApprovalRequest,
    ApprovalResponse,
    HostToolRequest,
    HostToolResponse,
    ReplyDraft,
    StatusRequest,
    TerminateRequest,
)
from choir_common.wire.signals import (
    CancelSignal,
    CompactSignal,
    InjectSignal,
    Signal,
    UserMessageSignal,
)
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import (
    answer,
    is_leased,
    name_conversations,
    serve,
    take_up,
)
from tests.service.control.world import World, until


@pytest.fixture
async def shared(world: World, agent: AgentHand) -> AgentHand:
    """The agent `main`, which serves `console` (an admin's) and `second`."""
    await serve(world, "second")
    return agent


@pytest.fixture
async def heard(bus: Bus) -> list[DmActivity]:
    """The activity that control publishes."""
    activity: list[DmActivity] = []

    async def hear(message: DmActivity) -> None:
        activity.append(message)

    await bus.subscribe_events(subjects.dm_activity(), DmActivity, hear)
    return activity


@pytest.fixture
async def say(world: World) -> AsyncIterator[Any]:
    """Type a command in a conversation and return the note."""
    count = 0

    async def typed(text: str, dm: str = "second") -> str:
        nonlocal count
        count += 1
        accepted = await world.say(text, f"typed{count}", dm)
        assert accepted.command
        return accepted.note or ""

    yield typed


async def ask(agent: AgentHand, call_id: str, dm: str = "") -> str:
    """Ask a conversation for a decision; return the request's id."""
    request = ApprovalRequest(
        request_type="tool", call_id=call_id, payload={"name": call_id}, dm=dm
    )
    response = await agent.call("REQUEST_APPROVAL", request)
    return ApprovalResponse.model_validate_json(response).approval_id


async def view_of(world: World) -> dict[str, Any]:
    view: dict[str, Any] = (await world.get("/v1/agents/main")).json()
    return view


async def signals_of(agent: AgentHand, count: int) -> list[Signal]:
    signals: list[Signal] = []
    async with asyncio.timeout(60), agent.signals() as stream:
        async for signal in stream:
            signals.append(signal)
            if len(signals) == count:
                break
    return signals


async def test_the_conversations_of_a_session_are_those_that_the_configuration_names(
    world: World, agent: AgentHand
) -> None:
    assert (await view_of(world))["conversations"] == ["console"]
    await serve(world, "second")
    assert (await view_of(world))["conversations"] == ["console", "second"]
    session = await world.session(agent.spec.session_id)
    assert session["conversations"] == ["console", "second"]
    dms = {row["name"]: row for row in (await world.get("/v1/dms")).json()["items"]}
    assert (dms["second"]["agent_id"], dms["second"]["bound"]) == ("main", True)
    await serve(world)
    assert (await view_of(world))["conversations"] == ["console"]
    assert not await is_leased(world, "second")


async def test_a_new_session_is_bound_before_its_agent_starts(stopped: World) -> None:
    name_conversations(stopped, "second")
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    assert (await view_of(stopped))["conversations"] == ["console", "second"]
    await stopped.say("hello", "1", "second")
    assert (await agent.next_message()).dm == "second"


async def test_an_answer_goes_to_the_conversation_of_its_question(
    world: World, shared: AgentHand
) -> None:
    await world.say("here?", "1", "second")
    await world.say("at home?", "2")
    for expected in ("second", "console"):
        signal = await shared.next_message()
        assert signal.dm == expected
        await take_up(shared, signal)
        await answer(shared, signal, f"to {expected}")
    await world.delivered(2)
    replies = {(m.dm, m.gateway, m.text) for m in world.gateway.delivered}
    assert replies == {("second", "bot", "to second"), ("console", "console", "to console")}
    unanswered = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.inbox WHERE answered_rev IS NULL"
    )
    assert unanswered == 0


async def test_a_reply_to_a_conversation_that_the_session_never_had_is_refused(
    shared: AgentHand,
) -> None:
    shared.add(Reply(turn_id="t", dm="third", text="x", kind="answer"), "edge:third")
    with pytest.raises(InvalidRequest, match="bound to 'console', 'second'"):
        await shared.flush()


async def test_a_removed_conversation_stays_until_its_open_message_has_an_answer(
    world: World, shared: AgentHand
) -> None:
    await world.say("wait for me", "1", "second")
    signal = await shared.next_message()
    await take_up(shared, signal)
    await serve(world)
    assert await is_leased(world, "second")
    await answer(shared, signal, "done")

    async def is_free() -> bool:
        return not await is_leased(world, "second")

    await until(is_free)
    # the report of a job that was started there
    shared.add(Reply(turn_id=None, dm="second", text="later", kind="report"), "edge:second")
    await shared.flush()
    assert await world.delivered(2) == ["done", "later"]


async def test_a_conversation_of_another_agent_is_bound_when_that_agent_has_stopped(
    world: World, agent: AgentHand
) -> None:
    started = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert started.status_code == 200, started.text
    other = await world.agent(starts=2)
    await other.begin()
    await serve(world, "second")
    view = await view_of(world)
    assert view["conversations"] == ["console"]
    assert (
        "second is not bound: dm:second is in use by agent other" in view["conversation_faults"][0]
    )
    stopping = asyncio.create_task(world.post("/v1/agents/other/stop"))
    await other.next_signal()
    await other.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("other", 0)
    assert (await stopping).status_code == 200

    async def is_bound() -> bool:
        return bool((await view_of(world))["conversations"] == ["console", "second"])

    await until(is_bound)
    assert (await view_of(world))["conversation_faults"] == []


async def test_incognito_and_further_conversations_exclude_each_other(
    world: World, shared: AgentHand, say: Any
) -> None:
    refused = await say("/memory incognito", "console")
    assert "main serves further conversations (second)" in refused
    assert "its home conversation, console" in await say("/memory incognito")
    assert "its home conversation, console" in await say("/recall off")
    session = await world.session(shared.spec.session_id)
    assert session["memory_mode"] == "local"


async def test_an_incognito_session_is_not_bound_to_further_conversations(
    stopped: World,
) -> None:
    await stopped.database.execute(
        "INSERT INTO choir_control.conversation_memory (dm, mode) VALUES ('console', 'incognito')"
    )
    name_conversations(stopped, "second")
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    view = await view_of(stopped)
    assert view["conversations"] == ["console"]
    assert (
        "main is incognito and serves only its home conversation" in view["conversation_faults"][0]
    )


async def test_commands_are_about_the_conversation_in_which_they_were_typed(
    shared: AgentHand, say: Any
) -> None:
    for dm in ("second", "console"):
        for text in ("/inject hurry", "/cancel", "/compact"):
            await say(text, dm)
    bodies = [signal.body for signal in await signals_of(shared, 7)]
    assert not any(isinstance(body, UserMessageSignal) for body in bodies)
    named = [
        (type(body), body.dm)
        for body in bodies
        if isinstance(body, InjectSignal | CancelSignal | CompactSignal)
    ]
    kinds = (InjectSignal, CancelSignal, CompactSignal)
    assert named == [(kind, "second") for kind in kinds] + [(kind, "") for kind in kinds]


async def test_a_conversation_that_is_no_admins_sees_only_what_is_its_own(
    world: World, shared: AgentHand, say: Any
) -> None:
    for job, dm in (("mine", "second"), ("theirs", "console")):
        shared.add(
            CoreStarted(job_id=f"job_{job}", job_name=job, call_id="c", dm=dm, task_spec="x"),
            "edge" if dm == "console" else f"edge:{dm}",
        )
        report = StatusRequest(lane=f"core:{job}", state="CORE_REASONING")
        await shared.call("REPORT_STATUS", report)
    await shared.flush()
    await shared.call("REPORT_STATUS", StatusRequest(lane="edge", state="EDGE_REASONING"))
    await shared.call("REPORT_STATUS", StatusRequest(lane="edge:second", state="EDGE_IDLE"))
    for text in ("/cores", "/status"):
        own = await say(text)
        assert "mine" in own and "theirs" not in own and "thinking" not in own.splitlines()[0]
        everything = await say(text, "console")
        assert "mine" in everything and "theirs" in everything
    assert "no job 'theirs'" in await say("/cancel theirs")
    assert "theirs" not in await say("/events 50")
    assert "core started" in await say("/events 50")
    assert "Only an admin" in await say("/reset")


async def test_the_conversation_whose_turn_asks_decides_on_the_request(
    world: World, shared: AgentHand, say: Any
) -> None:
    mine, theirs = await ask(shared, "c1", "second"), await ask(shared, "c2")
    await world.delivered(2)
    asked = {message.dm: message for message in world.gateway.delivered}
    assert mine in asked["second"].text and theirs in asked["console"].text
    listed = await say("/approvals")
    assert mine in listed and theirs not in listed
    assert "There is no approval request" in await say(f"/approve {theirs}")
    forged = ButtonPress(
        gateway="bot",
        user_id="7",
        chat_id="7",
        data=asked["console"].buttons[0].data,
        callback_id="1",
    )
    assert "no longer open" in (await NatsControlClient(world.bus).press(forged)).answer
    assert mine in await say(f"/approve {mine}")
    states = {
        row["approval_id"]: row["status"]
        for row in (await world.get("/v1/approvals")).json()["items"]
    }
    assert (states[mine], states[theirs]) == ("approved", "pending")


async def test_a_request_for_a_conversation_that_the_session_never_had_is_refused(
    shared: AgentHand,
) -> None:
    with pytest.raises(InvalidRequest, match="does not serve the conversation 'third'"):
        await ask(shared, "c1", "third")
    request = HostToolRequest(tool_name="choir.schedule.list", call_id="c", input={}, dm="third")
    response = HostToolResponse.model_validate_json(await shared.call("EXECUTE_HOST_TOOL", request))
    assert response.status == "error" and "third" in str(response.output["message"])


async def test_a_yes_covers_later_calls_of_the_conversation_that_gave_it(
    world: World, shared: AgentHand, say: Any
) -> None:
    def call(call_id: str, dm: str = "") -> ApprovalRequest:
        payload = {"tool": "choir.email.send", "arguments": {"to": "a@b.example"}}
        return ApprovalRequest(
            request_type="call",
            call_id=call_id,
            payload=payload,
            scopes=("once", "session"),
            dm=dm,
        )

    async def status(request: ApprovalRequest) -> str:
        response = await shared.call("REQUEST_APPROVAL", request)
        return ApprovalResponse.model_validate_json(response).status

    assert await status(call("c1", "second")) == "pending"
    assert "Approved" in await say("/approve session")
    assert await status(call("c2", "second")) == "approved"
    assert await status(call("c3")) == "pending"
    assert "choir.email.send" in await say("/grants")


async def test_activity_is_shown_in_the_conversation_that_it_concerns(
    world: World, shared: AgentHand, heard: list[DmActivity]
) -> None:
    await world.say("hello", "1", "second")
    signal = await shared.next_message()
    await take_up(shared, signal)
    draft = ReplyDraft(read_rev=shared.head.rev, text="Good mo")
    report = StatusRequest(lane="edge:second", state="EDGE_REASONING", draft=draft)
    await shared.call("REPORT_STATUS", report)
    started = CoreStarted(job_id="job_1", job_name="dig", call_id="c", dm="second", task_spec="x")
    shared.add(started, "edge:second")
    shared.add(CoreReported(job_id="job_1", job_name="dig", kind="progress", body={}), "core:dig")
    await answer(shared, signal, "Good morning.")

    async def is_shown() -> bool:
        kinds = {type(activity.what) for activity in heard}
        return {Typing, Draft, Card, Idle} <= kinds

    await until(is_shown)
    assert {(activity.dm, activity.gateway) for activity in heard} == {("second", "bot")}


async def test_notices_about_the_agent_reach_all_its_conversations_once(
    world: World, shared: AgentHand
) -> None:
    await world.say("work", "1", "second")
    await take_up(shared, await shared.next_message())
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await world.until_status(shared.spec.session_id, "stopping")
    shared.add(SessionSuspended(reason="asked"), "session")
    await shared.flush()
    await shared.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    assert (await stopping).status_code == 200
    await world.delivered(2)
    notices = [(m.dm, m.gateway) for m in world.gateway.delivered]
    assert sorted(notices) == [("console", "console"), ("second", "bot")]
    assert all("stopped with open work" in m.text for m in world.gateway.delivered)
    # another stop discards the work: only the conversation that waits is told
    assert (await world.post("/v1/agents/main/stop")).status_code == 200
    await world.delivered(3)
    last = world.gateway.delivered[-1]
    assert (last.dm, last.gateway) == ("second", "bot")
    assert "Your message will not be answered" in last.text


async def test_erasing_a_person_covers_sessions_shared_with_others(
    world: World, shared: AgentHand
) -> None:
    preview = (await world.get("/v1/dms/second/erasure")).json()
    assert [row["session_id"] for row in preview["sessions"]] == [shared.spec.session_id]
    assert preview["running"] == ["main"]
