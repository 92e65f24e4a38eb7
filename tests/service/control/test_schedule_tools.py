"""The tools `choir.schedule.*` of an agent: its own schedules, and what needs a person's consent."""

from typing import Any

from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.schedules import ScheduleSummary, ScheduleView
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

TEA = {"kind": "remind", "text": "tea", "timing": "in", "value": "5m"}
DAILY = {"kind": "prompt", "text": "look", "timing": "every", "value": "1d"}


async def use(agent: AgentHand, name: str, call_id: str, **input_: Any) -> HostToolResponse:
    request = HostToolRequest(tool_name=f"choir.schedule.{name}", call_id=call_id, input=input_)
    return HostToolResponse.model_validate_json(await agent.call("EXECUTE_HOST_TOOL", request))


async def create(agent: AgentHand, call_id: str, **input_: Any) -> ScheduleSummary:
    answer = await use(agent, "create", call_id, **input_)
    assert answer.status == "success", answer.output
    return ScheduleSummary.model_validate(answer.output)


async def refusal(agent: AgentHand, name: str, call_id: str, **input_: Any) -> str:
    """Return the error of a call that must be refused."""
    answer = await use(agent, name, call_id, **input_)
    assert (answer.status, answer.output.get("code")) == ("error", "forbidden"), answer.output
    return str(answer.output["message"])


async def asked(world: World, agent: AgentHand, text: str = "remind me of the tea") -> str:
    """Have a person write to the agent; return the message that it answers."""
    await world.say(text, f"u {text}")
    signal = await agent.next_message()
    await agent.take_up(signal)
    return signal.inbox_id


async def stored(world: World) -> list[ScheduleView]:
    items = (await world.get("/v1/schedules")).json()["items"]
    return [ScheduleView.model_validate(item, strict=False) for item in items]


async def test_an_agent_creates_a_schedule_once_lists_pauses_and_deletes_it(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await asked(world, agent)
    tea = await create(agent, "c1", **TEA, inbox_id=inbox_id)
    assert tea == await create(agent, "c1", **TEA, inbox_id=inbox_id)
    (view,) = await stored(world)
    assert (view.created_by, view.dm, view.words) == (
        "agent main",
        "console",
        "remind me of the tea",
    )
    assert tea.by_agent and tea.when.startswith("once at ") and tea.next in tea.when
    listed = (await use(agent, "list", "c2")).output
    assert listed == {"schedules": [tea.model_dump(mode="json")]}
    number = tea.schedule_id
    for call_id, state in (("c3", "paused"), ("c4", "paused"), ("c5", "active")):
        changed = await use(agent, "update", call_id, schedule_id=number, state=state)
        assert changed.output["state"] == state
    assert (await use(agent, "delete", "c6", schedule_id=number)).output["state"] == "deleted"
    assert (await use(agent, "delete", "c7", schedule_id=number)).output["code"] == "not_found"
    assert await stored(world) == []


async def test_more_than_hourly_or_more_than_ten_schedules_need_a_persons_consent(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await asked(world, agent)
    often = {**DAILY, "value": "59m", "inbox_id": inbox_id}
    cron = {**DAILY, "timing": "cron", "value": "0,59 8 * * *", "inbox_id": inbox_id}
    assert "more often than once an hour" in await refusal(agent, "create", "c0", **often)
    assert "ask_user" in await refusal(agent, "create", "c1", **cron)
    await create(agent, "c2", **often, ask_user=True)
    for number in range(9):
        await create(agent, f"d{number}", **DAILY, inbox_id=inbox_id)
    # the last one again: it is not counted twice
    await create(agent, "d8", **DAILY, inbox_id=inbox_id)
    assert "10 schedules already" in await refusal(agent, "create", "e", **TEA, inbox_id=inbox_id)
    await create(agent, "e", **TEA, inbox_id=inbox_id, ask_user=True)
    assert len(await stored(world)) == 11


async def test_an_agent_changes_time_and_words_of_its_schedule(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await asked(world, agent)
    rules = {"zone": "Asia/Tokyo", "catch_up": "all", "overlap": "wait"}
    own = await create(agent, "c1", **DAILY, **rules, inbox_id=inbox_id)
    (view,) = await stored(world)
    assert (view.zone, view.catch_up, view.overlap) == ("Asia/Tokyo", "all", "wait")
    change = {"schedule_id": own.schedule_id, "inbox_id": inbox_id}
    changed = await use(
        agent, "update", "c2", **change, text="look twice", value="2d", zone="UTC", catch_up="skip"
    )
    assert (changed.output["text"], changed.output["when"]) == ("look twice", "every 2d")
    (view,) = await stored(world)
    assert (view.zone, view.catch_up, view.text_by) == ("UTC", "skip", "agent main")
    assert "more often" in await refusal(agent, "update", "c3", **change, value="5m")
    allowed = await use(agent, "update", "c4", **change, value="5m", ask_user=True)
    assert allowed.output["when"] == "every 5m"
    unattended = {**change, "inbox_id": None}
    assert "not answering" in await refusal(agent, "update", "c5", **unattended, text="x")
    empty = await use(agent, "update", "c6", **change)
    assert empty.output["code"] == "bad_input"


async def test_words_that_an_agent_wrote_count_as_its_own_and_words_of_the_user_as_the_users(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await asked(world, agent)
    await world.say("/schedule add every 1d prompt look", "u1")
    own = await create(agent, "c1", **DAILY, inbox_id=inbox_id)
    users = next(view for view in await stored(world) if view.created_by == "dm console")
    change = {"schedule_id": users.schedule_id, "inbox_id": inbox_id, "text": "look twice"}
    assert "The user created" in await refusal(agent, "update", "c2", **change)
    assert (await use(agent, "update", "c3", **change, ask_user=True)).status == "success"
    await world.say(f"/schedule update {own.schedule_id} text look at my words", "u2")
    mine = {**change, "schedule_id": own.schedule_id}
    assert "or changed" in await refusal(agent, "update", "c4", **mine)
    for schedule_id, by_agent in ((users.schedule_id, True), (own.schedule_id, False)):
        await world.post(f"/v1/schedules/{schedule_id}/run")
        signal = await agent.next_message()
        assert signal.wake_up is not None and signal.wake_up.by_agent is by_agent
        await agent.take_up(signal)


async def test_only_an_answer_to_a_person_creates_schedules_without_consent(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await asked(world, agent)
    own = await create(agent, "c1", **DAILY, inbox_id=inbox_id)
    body = {"agent_id": "main", "timing": "every", "value": "1h", "kind": "prompt", "text": "look"}
    users = (await world.post("/v1/schedules", json=body)).json()
    for schedule_id, by_agent in ((own.schedule_id, True), (users["schedule_id"], False)):
        started = await world.post(f"/v1/schedules/{schedule_id}/run")
        assert started.status_code == 200, started.text
        signal = await agent.next_message()
        assert signal.wake_up is not None and signal.wake_up.by_agent is by_agent
        await agent.take_up(signal)
        call = {**TEA, "inbox_id": signal.inbox_id}
        if by_agent:
            assert "not answering the user" in await refusal(agent, "create", "c2", **call)
        else:
            await create(agent, "c3", **call)
    assert "not answering the user" in await refusal(agent, "create", "c4", **TEA, inbox_id=None)


async def test_an_agent_changes_a_users_schedule_with_consent_and_sees_no_other_conversation(
    world: World, agent: AgentHand
) -> None:
    await world.say("/schedule add in 1h remind tea", "u1")
    await world.post("/v1/schedules", json={"agent_id": "main", "dm": "second", **TEA})
    users, hidden = await stored(world)
    listed = (await use(agent, "list", "c1")).output["schedules"]
    assert isinstance(listed, list) and len(listed) == 1
    number = users.schedule_id
    assert "The user created" in await refusal(agent, "delete", "c2", schedule_id=number)
    update = {"schedule_id": number, "state": "paused"}
    assert "The user created" in await refusal(agent, "update", "c3", **update)
    assert (await use(agent, "update", "c4", **update, ask_user=True)).status == "success"
    other = await use(agent, "delete", "c5", schedule_id=hidden.schedule_id, ask_user=True)
    assert other.output["code"] == "not_found"
    deleted = await use(agent, "delete", "c6", schedule_id=number, ask_user=True)
    assert deleted.status == "success"
    assert [view.schedule_id for view in await stored(world)] == [hidden.schedule_id]
