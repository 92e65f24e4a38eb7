"""What Choir itself says in a conversation: what is asked, decided and done; how works end."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from choir_common.clock import SystemClock
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import (
    ApprovalKind,
    ApprovalRequest,
    ApprovalResponse,
    TerminateRequest,
)
from choir_control.approvals.service import ApprovalExpiry
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until
from tests.support.approvals import configuration_with_timeout

PATCH: JsonObject = {"patch": {"event_window": 60}, "reason": "longer memory"}


async def ask(
    agent: AgentHand,
    call_id: str = "c1",
    kind: ApprovalKind = "config_change",
    payload: JsonObject = PATCH,
) -> str:
    request = ApprovalRequest(request_type=kind, call_id=call_id, payload=payload)
    answer = await agent.call("REQUEST_APPROVAL", request)
    return ApprovalResponse.model_validate_json(answer).approval_id


@pytest.fixture
async def say(world: World) -> Any:
    """Say something in a DM; every time under a new id."""
    count = 0

    async def said(text: str, dm: str = "console") -> str | None:
        nonlocal count
        count += 1
        return (await world.say(text, f"u{count}", dm)).note

    return said


async def hears(world: World, words: str) -> str:
    """Wait until the conversation has heard something with these words; return it."""
    found: list[str] = []

    async def heard() -> bool:
        found[:] = [text for text in world.gateway.texts if words in text]
        return bool(found)

    await until(heard, 60)
    return found[0]


async def reads(world: World, words: str) -> str:
    """Wait until the message that asked has been edited to these words; return them."""
    found: list[str] = []

    async def edited() -> bool:
        found[:] = [it.text for it in world.gateway.delivered if it.edits and words in it.text]
        return bool(found)

    await until(edited, 60)
    return found[0]


async def test_who_asks_for_what_is_said_with_the_difference_and_how_to_decide(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    text = await hears(world, "main requests the setting event_window.")
    assert "config.json: event_window\n+60" in text and "reason: longer memory" in text
    assert f"/approve {approval} or /reject {approval}" in text
    assert f"choirctl approval show {approval}" in text
    assert await ask(agent) == approval  # asked again it is the same, and said once
    [message] = world.gateway.delivered
    assert (message.agent_id, message.session_id, message.rev) == ("choir", None, None)
    assert (message.kind, message.dm, message.gateway) == ("notice", "console", "console")


async def test_the_status_says_how_many_requests_wait_until_they_are_decided(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "decision" not in await say("/status")
    approvals = [await ask(agent, f"c{number}", "call", {"n": number}) for number in range(2)]
    assert "2 requests wait for your decision: /approvals." in await say("/status")
    await world.post(f"/v1/approvals/{approvals[0]}/reject")
    assert "1 request waits for your decision: /approvals." in await say("/status")
    await world.post(f"/v1/approvals/{approvals[1]}/reject")
    assert "decision" not in await say("/status")


async def test_a_decision_made_elsewhere_is_told_and_then_how_it_ended(
    world: World, agent: AgentHand
) -> None:
    approval = await ask(agent)
    await world.post(f"/v1/approvals/{approval}/approve")
    done = await hears(world, "Done:")
    assert "version" in done and approval in done
    told = [message.text.split(":")[0] for message in world.gateway.delivered[1:]]
    assert told == ["Approved by operator", "Done"], "each is said once"
    assert "Executing." in world.gateway.delivered[1].text
    await world.post(f"/v1/approvals/{approval}/rollback")
    assert approval in await hears(world, "Rolled back:")
    await world.post(f"/v1/approvals/{await ask(agent, 'c2')}/reject")
    assert "setting event_window" in await reads(world, "Rejected by operator:")


async def test_a_decision_made_in_the_conversation_is_not_told_twice_but_why_it_failed_is(
    world: World, agent: AgentHand, say: Any
) -> None:
    approval = await ask(agent)
    config = json.loads(world.settings.config_file.read_text())
    world.settings.config_file.write_text(json.dumps({**config, "event_window": 70}))
    note = await say(f"/approve {approval}")
    assert (
        note.startswith("Approved: main requests the setting event_window") and "Executing" in note
    )
    failed = await hears(world, "Failed:")
    assert "config.json has been edited" in failed and "Propose it again" in failed
    assert not [text for text in world.gateway.texts if text.startswith("Approved")]


async def test_a_conversation_is_told_in_the_language_of_its_user_and_all_else_is_english(
    world: World, agent: AgentHand
) -> None:
    assert world.control is not None
    languages = world.control.services.conversations.languages
    await languages.note_app("console", "de-AT")
    approval = await ask(agent)
    asked = await hears(world, "main bittet um Freigabe: die Einstellung event_window.")
    assert "config.json: event_window\n+60" in asked and f"/approve {approval} oder" in asked
    rejected = (await world.say(f"/reject {approval}", "de1")).note
    assert rejected and rejected.startswith("Abgelehnt: main bittet um Freigabe")
    await reads(world, "Abgelehnt durch dm console: die Einstellung event_window")
    refused = (await world.say("/approve appr_nothing", "de2")).note
    assert refused == "Die Anfrage 'appr_nothing' gibt es nicht."
    unknown = (await world.say("/model llm strange", "de3")).note or ""
    assert unknown.startswith("config.json hat keinen Eintrag") or "Meldung von Choir: " in unknown
    help_text = (await world.say("/help", "de4")).note or ""
    assert "/approvals [id] - Offene Anfragen zeigen" in help_text
    await languages.note_app("console", "en")
    assert "Any other message" in ((await world.say("/help", "de5")).note or "")


async def test_a_request_that_nobody_answered_is_said_to_have_expired_once(
    world: World, agent: AgentHand
) -> None:
    await ask(agent, kind="call", payload={"tool": "x.y", "input": {"a": 1}})
    assert world.control is not None
    services = world.control.services
    expiry = ApprovalExpiry(
        services.approvals.store,
        approvals=services.approvals.service,
        configuration=configuration_with_timeout(timedelta(0)),
        clock=SystemClock(),
    )
    assert await expiry.expire_overdue() == 1
    text = await reads(world, "Expired: the use of x.y")
    assert text.endswith("Nobody decided in time; nothing was done.")
    await world.database.fetchval("SELECT choir_control.say('console', 'console', 'after it')")
    world_rescan(world, "console")
    await hears(world, "after it")
    assert [it.text for it in world.gateway.delivered if it.text == text] == [text]
    assert not [it for it in world.gateway.delivered if "eject" in it.text.partition(":")[0]]


def world_rescan(world: World, dm: str) -> None:
    """Have choird look at what there is to say, as its own clock would."""
    assert world.control is not None
    world.control.services.conversations.outbox.rescan(dm)


async def test_words_of_choir_and_of_the_agent_are_heard_in_the_order_of_their_numbers(
    world: World, agent: AgentHand
) -> None:
    async def speak() -> None:
        for number in range(20):
            await agent.reply(f"word {number}", kind="notice")

    async def work() -> None:
        for number in range(20):
            await ask(agent, f"c{number}", "call", {"tool": f"t{number}", "input": {}})

    await asyncio.gather(speak(), work())
    await world.delivered(40)
    numbers = [message.outbox_id for message in world.gateway.delivered]
    assert numbers == sorted(set(numbers)) and len(numbers) == 40


async def test_words_of_choir_that_were_not_announced_yet_go_before_the_agents(
    world: World, agent: AgentHand
) -> None:
    await agent.reply("zeroth", kind="notice")
    await world.delivered(1)
    await world.database.fetchval("SELECT choir_control.say('console', 'console', 'first')")
    await agent.reply("second", kind="notice")
    await world.delivered(3)
    assert [it.text for it in world.gateway.delivered] == ["zeroth", "first", "second"]


async def test_nothing_the_agent_says_gets_a_number_while_choir_is_saying_something(
    world: World, agent: AgentHand
) -> None:
    async with world.database.transaction() as held:
        await held.fetchval("SELECT choir_control.say('console', 'console', 'first')")
        saying = asyncio.create_task(agent.reply("second", kind="notice"))
        done, _ = await asyncio.wait({saying}, timeout=1)
        assert not done, "its number would be seen before a lower one"
    await saying
    rows = await world.database.fetch("SELECT text FROM choir_control.outbox ORDER BY outbox_id")
    assert [row["text"] for row in rows] == ["first", "second"]


async def test_a_bare_number_answers_the_question_that_was_just_asked(
    world: World, agent: AgentHand, say: Any
) -> None:
    first, second = (
        await ask(agent, "c1", "tool", {"n": 1}),
        await ask(agent, "c2", "tool", {"n": 2}),
    )
    await world.delivered(2)
    assert "Which one?" in await say("/reject")
    assert second in await say("2")
    third = await ask(agent, "c3", "tool", {"n": 3})
    await world.delivered(3)
    assert await say("1") is None, "nothing was asked any more: it is for the agent"
    assert "Which one?" in await say("/reject")
    assert "no number 7" in await say("7")
    assert "Which one?" in await say("/reject")
    await say("never mind")
    assert await say("1") is None
    states = {
        name: (await world.get(f"/v1/approvals/{name}")).json()["status"] for name in (first, third)
    }
    assert set(states.values()) == {"pending"}


async def test_a_number_after_somebody_else_has_spoken_decides_nothing_and_the_list_is_shown_again(
    world: World, agent: AgentHand, say: Any
) -> None:
    for number in (1, 2):
        await ask(agent, f"c{number}", "tool", {"n": number})
    await world.delivered(2)
    assert "Which one?" in await say("/approve")
    await agent.reply("How many cups? Say 1 or 2.", kind="notice")
    await hears(world, "How many cups?")
    assert "Which one?" in await say("1")
    listed = (await world.get("/v1/approvals")).json()["items"]
    assert [each["status"] for each in listed] == ["pending", "pending"]
    assert (await say("1")).startswith("Approved")


async def test_a_request_is_shown_at_length_in_the_conversation(
    world: World, agent: AgentHand, say: Any
) -> None:
    rows: JsonObject = {"tool": "t", "input": {"rows": [f"row {n}" for n in range(60)]}}
    approval = await ask(agent, kind="call", payload=rows)
    assert "row 59" not in await hears(world, "main requests the use of t.")
    await say("/approvals")
    for named in ("1", approval):
        shown = await say(f"/approvals {named}")
        assert "row 59" in shown and "[pending]" in shown
    assert "There is no approval request" in await say(f"/approvals {approval}", dm="second")


async def test_what_takes_longer_than_the_acknowledgement_is_told_when_it_ends(
    world: World, agent: AgentHand, say: Any
) -> None:
    async with agent.beating():
        assert "The result will be reported here." in await say("/stop")
    assert not world.gateway.delivered
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    assert await hears(world, "agent stop of main") == "agent stop of main: main has stopped."


async def test_builds_updates_and_resets_are_told_when_they_end(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "result will be reported here" in await say("/agent build other")
    assert await hears(world, "agent build of other")
    assert "Reply yes to continue" in await say("/workspace reset spare")
    assert "result will be reported here" in await say("yes")
    assert "0 of 0 entries deleted" in await hears(world, "workspace reset of spare")
    await say("/update-all")
    told = await hears(world, "agent update-all of all")
    assert [one.split()[:2] for one in told.partition(": ")[2].split("; ")] == [
        [agent, "skipped:"] for agent in ("main", "never", "other")
    ]
    assert len(world.gateway.texts) == 3


async def test_what_choirds_end_cut_off_is_told_by_the_next_one(
    world: World, agent: AgentHand, say: Any
) -> None:
    async with agent.beating():
        assert "result will be reported here" in await say("/stop")
    await world.stop()
    assert not world.gateway.delivered
    await world.start()
    cut = await hears(world, "agent stop of main was interrupted")
    assert "start it again" in cut
