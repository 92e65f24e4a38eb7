"""What people do from a conversation: see, start and stop agents, and decide."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import Conflict
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse, StatusReport, TerminateRequest
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import MODEL_KEY, World, until


@pytest.fixture
async def say(world: World) -> Any:
    """Say something in a DM and get the note; every time under a new id."""
    count = 0

    async def said(text: str, dm: str = "console", again: bool = False) -> str:
        nonlocal count
        count += 0 if again else 1
        accepted = await world.say(text, f"u{count}", dm)
        assert accepted.command
        return accepted.note or ""

    return said


async def stop_by(say: Any, text: str, world: World, agent: AgentHand) -> str:
    """Give a command that stops `main`, end it as a good agent does, return the note."""
    saying = asyncio.create_task(say(text))
    await agent.next_signal()
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    return str(await saying)


async def ask_for(agent: AgentHand, call_id: str) -> str:
    request = ApprovalRequest(request_type="tool", call_id=call_id, payload={"name": call_id})
    answer = await agent.call("REQUEST_APPROVAL", request)
    return ApprovalResponse.model_validate_json(answer).approval_id


async def test_status_tells_what_an_agent_does_and_has_left(agent: AgentHand, say: Any) -> None:
    report = StatusReport(
        lane="core:read", state="CORE_REASONING", budget_remaining={"per_job_max_steps": 9}
    )
    await agent.call("REPORT_STATUS", report)
    text = await say("/status")
    assert "main is running" in text and "workspace main" in text
    assert "- job read: thinking (left: 9 steps)" in text
    assert await say("/status other") == (
        "other is stopped. Model: scripted.\nMemory: local, recall on."
    )
    assert "There is no agent 'nobody'" in await say("/status nobody")


async def test_cores_and_events_show_the_running_session(agent: AgentHand, say: Any) -> None:
    assert "main" in await say("/cores")
    assert "main runs no MCP servers" in await say("/mcp")
    assert "session: session started" in await say("/events")
    assert len((await say("/events 1")).splitlines()) == 1
    assert "not a number from 1 to 50" in await say("/events many")
    assert "not running" in await say("/cores other")


async def test_an_admin_stops_and_starts_an_agent(world: World, agent: AgentHand, say: Any) -> None:
    assert await stop_by(say, "/stop", world, agent) == "main has stopped."
    assert "not running" in await say("/stop")
    assert "'bad'" in await say("/start main llm=bad")
    assert "Valid settings of a start" in await say("/start main colour=blue")
    start = "/start main workspace=spare llm=default"
    started = await say(start)
    assert started.startswith("main has started in console")
    view = (await world.get("/v1/agents/main")).json()
    assert view["bindings"]["workspace"] == "spare" and view["bindings"]["dm"] == "console"
    assert "was already executed" in await say(start, again=True)
    with pytest.raises(Conflict, match="Another message"):
        await say("/start main", again=True)
    assert "already running" in await say("/start main")
    assert "main: " in await say("/agent list")
    assert "needs one of: /agent list" in await say("/agent")


async def test_an_agent_started_from_a_conversation_is_bound_to_it(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "main" in await say("/start never"), "the conversation is held by another agent"
    assert (await world.get("/v1/agents/never")).json()["state"] == "stopped"
    await stop_by(say, "/stop main", world, agent)
    await say("/start never")
    assert (await world.get("/v1/agents/never")).json()["bindings"]["dm"] == "console"


async def test_an_agent_is_restarted_with_what_it_holds(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "not running" in await say("/restart", dm="second")
    said = await stop_by(say, "/restart", world, agent)
    assert said.startswith("main has restarted")
    assert (await world.get("/v1/agents/main")).json()["session_id"] in said


async def test_model_and_voice_are_shown_and_changed(agent: AgentHand, say: Any) -> None:
    assert (await say("/model")).startswith("main uses the model default (scripted).")
    assert "config.json has no llm 'bad'" in await say("/model llm bad")
    assert "until its next restart" in await say("/model llm default")
    assert "not running" in await say("/model llm default other")
    assert "An argument is missing: /model llm <name>" in await say("/model llm")
    assert "Available: " in await say("/voice")
    assert "config.json has no voice profile" in await say("/voice nobody")


async def test_a_stop_that_takes_longer_is_acknowledged_at_once(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "some minutes" in await say("/stop")
    assert "running" in await say("/status")
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)


async def test_a_regular_conversation_reaches_its_own_agent_only(
    world: World, agent: AgentHand, say: Any
) -> None:
    for text in ("/status main", "/stop main", "/cores main"):
        assert "not an admin's" in await say(text, dm="second")
    for text in ("/start main", "/agent list"):
        assert "admin conversations" in await say(text, dm="second")
    assert (await say("/status", dm="second")).startswith("other is stopped")
    assert "/start" not in await say("/help", dm="second")
    assert (await say("/start", dm="second")).startswith(
        "Hello. This is other, which is not running"
    )
    assert (await world.get("/v1/agents/main")).json()["state"] == "running"


async def test_opening_a_conversation_is_answered_with_a_greeting(
    world: World, agent: AgentHand, say: Any
) -> None:
    greeting = await say("/start")
    assert greeting.startswith("Hello. This is main.") and "/help" in greeting
    assert "\n" not in greeting and "/approve" not in greeting
    assert (await world.get("/v1/agents/main")).json()["state"] == "running"


async def test_several_requests_are_chosen_from_by_number(agent: AgentHand, say: Any) -> None:
    assert await say("/approvals") == "No request is pending."
    assert "No request is pending" in await say("/approve")
    assert "no number 1" in await say("/approve 1")
    first, second = await ask_for(agent, "one"), await ask_for(agent, "two")
    listed = await say("/approve")
    assert listed.startswith("1. main requests the tool one") and "Which one?" in listed
    assert listed.index(first) < listed.index(second)
    assert second in await say("/reject 2")
    third = await ask_for(agent, "three")
    assert "rejected" in await say("/approve 2"), "a number means what was shown, not what is new"
    assert "1. " in await say("/approvals")
    assert first in await say(f"/approve {first}")
    assert third in await say("/approve"), "the only one that waits"
    assert "There is no approval request" in await say("/approve appr_nothing")


async def test_a_regular_conversation_decides_for_its_own_agent_only(
    world: World, agent: AgentHand, say: Any
) -> None:
    asked = await ask_for(agent, "one")
    assert await say("/approvals", dm="second") == "No request is pending."
    refused = await say(f"/approve {asked}", dm="second")
    assert refused == (await say("/approve appr_x", dm="second")).replace("appr_x", asked)
    assert (await world.get(f"/v1/approvals/{asked}")).json()["status"] == "pending"
    await say("/approve")
    decided = (await world.get(f"/v1/approvals/{asked}")).json()
    assert decided["status"] == "approved" and decided["decided_by"] == "dm console"


async def test_an_admin_empties_a_workspace(world: World, agent: AgentHand, say: Any) -> None:
    spare = world.home / "workspaces/spare"
    spare.mkdir(parents=True)
    (spare / "notes.txt").write_text("x")
    assert "spare: free, 1 files" in await say("/workspace list")
    assert "main: main" in await say("/workspace list")
    asked = await say("/workspace reset spare")
    assert "deletes everything in the workspace spare: 1 files" in asked and "yes" in asked
    assert (spare / "notes.txt").exists()
    begun = await say("yes")

    async def ended() -> bool:
        return "succeeded" in await say(f"/operation {begun.split('/operation ')[1].split()[0]}")

    await until(ended)
    assert "1 of 1 entries deleted" in await say("/operation")
    assert list(spare.iterdir()) == []
    assert "nobody" in await say("/workspace reset nobody")
    assert "main uses it and is stopped first" in await say("/workspace reset main")
    assert "admin conversations" in await say("/workspace reset spare", dm="second")


async def test_anything_but_a_yes_right_after_the_question_empties_nothing(
    world: World, agent: AgentHand, say: Any
) -> None:
    kept = world.home / "workspaces/spare/notes.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    yes = 0

    async def says_yes() -> str | None:
        nonlocal yes
        yes += 1
        return (await world.say("yes", f"yes{yes}")).command

    assert "Reply yes" in await say("/workspace reset spare")
    await say("/status")
    assert await says_yes() is None, "another command came between: the yes is for the agent"
    assert "Reply yes" in await say("/workspace reset spare")
    await agent.reply("Shall I go on?", kind="notice")
    assert await says_yes() is None, "the agent asked since: the yes is for the agent"
    assert "Reply yes" in await say("/workspace reset spare")
    assert (await world.say("no", "no1")).command is None
    assert await says_yes() is None
    assert kept.exists()


async def test_an_admin_begins_an_update_and_sees_how_it_goes(
    world: World, agent: AgentHand, say: Any
) -> None:
    assert "There are no operations yet" in await say("/operation")
    assert "There is no agent 'nobody'" in await say("/update nobody")
    for text in ("/agent build other", "/update other", "/update-all"):
        begun = await say(text)
        operation = begun.split("/operation ")[1].split()[0]

        async def ended(operation: str = operation) -> bool:
            view = (await world.get(f"/v1/operations/{operation}")).json()
            return bool(view["status"] != "running")

        await until(ended)
        assert "other" in (told := await say(f"/operation {operation}")) or "all" in told
        assert await say("/operation") == told


async def test_an_admin_applies_the_configuration_that_was_shown(world: World, say: Any) -> None:
    assert "Review the changes" in await say("/config apply")
    file = world.home / "config.json"
    config = json.loads(file.read_text())
    config["event_window"] = 77
    file.write_text(json.dumps(config))
    assert "changed event_window" in await say("/config load")
    shown = await say("/config diff")
    assert "changed event_window" in shown and "/config apply" in shown
    config["event_window"] = 78
    file.write_text(json.dumps(config))
    assert (await world.post("/v1/config/load")).status_code == 200
    assert "is active" not in await say("/config apply"), "another one is staged by now"
    await say("/config diff")
    assert "is active, with 1 change;" in await say("/config apply")
    assert (await world.get("/v1/config")).json()["config"]["event_window"] == 78
    file.write_text("{")
    assert "config.json" in await say("/config load")


async def test_secrets_are_listed_by_name(world: World, say: Any) -> None:
    listed = await say("/secret list")
    assert "key: set, used by models.default" in listed and MODEL_KEY not in listed
    assert "admin conversations" in await say("/secret list", dm="second")


async def test_the_conversations_are_listed_with_who_holds_them(
    world: World, agent: AgentHand
) -> None:
    listed = (await world.get("/v1/dms")).json()["items"]
    assert [(dm["name"], dm["agent_id"], dm["bound"], dm["admin"]) for dm in listed] == [
        ("console", "main", True, True),
        ("second", "other", False, False),
    ]


def test_only_the_modules_of_the_table_contain_rows() -> None:
    package = Path("services/control/choir_control/conversations/commands")
    modules = [path.name for path in package.glob("*.py") if " CommandSpec(" in path.read_text()]
    assert sorted(modules) == [
        *("connection_table.py", "people_table.py", "schedule_table.py", "table.py"),
        "web_table.py",
    ]
