"""Rights of people: members and guests talk, owners and admins decide."""

import asyncio
import json
import re
from typing import Any

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.clients.control import NatsControlClient
from choir_common.wire.memory_search import EnsureSpace, MemoryHits, MemoryQuery, MemoryReader
from choir_common.wire.messages import ButtonPress, Empty
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import (
    ApprovalRequest,
    ApprovalResponse,
    ConfigRequest,
    ConfigResponse,
    HostToolRequest,
    HostToolResponse,
)
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import serve
from tests.service.control.test_recovery import stop_and_start
from tests.service.control.world import OPERATOR_TOKEN, World
from tests.support.shell import ChoirctlRunner


def name_people(world: World, role: str) -> None:
    """Make the user of `console` the owner, and the one of `second` a person of this role."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["people"] = {
        "ada": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]},
        "bob": {
            "role": role,
            "timezone": "Asia/Tokyo",
            "identities": [{"gateway": "bot", "user": "7"}],
        },
    }
    path.write_text(json.dumps(config))


async def conversations_of(agent: AgentHand, version: int) -> tuple[dict[str, str], int]:
    """Return an agent's conversations with their people, and the version of these settings."""
    body = await agent.call("FETCH_DYNAMIC_CONFIG", ConfigRequest(current_config_version=version))
    answer = ConfigResponse.model_validate_json(body)
    assert answer.config is not None, "there is no newer version"
    return {it.name: it.person for it in answer.config.conversations}, answer.config_version


@pytest.fixture
def say(world: World) -> Any:
    count = 0

    async def typed(text: str, dm: str = "second") -> str:
        nonlocal count
        count += 1
        accepted = await world.say(text, f"typed{count}", dm)
        assert accepted.command
        return accepted.note or ""

    return typed


async def test_a_message_names_its_sender(world: World, agent: AgentHand) -> None:
    name_people(world, "member")
    await serve(world, "second")
    await world.say("hello", "1", "second")
    sender = (await agent.next_message()).sender
    assert sender is not None
    assert (sender.name, sender.role, sender.timezone) == ("bob", "member", "Asia/Tokyo")


async def test_a_request_in_a_members_turn_is_decided_by_the_owner(
    world: World, agent: AgentHand, say: Any
) -> None:
    name_people(world, "member")
    await serve(world, "second")
    request = ApprovalRequest(
        request_type="tool", call_id="c1", payload={"name": "c1"}, dm="second"
    )
    response = await agent.call("REQUEST_APPROVAL", request)
    approval_id = ApprovalResponse.model_validate_json(response).approval_id
    await world.delivered(2)
    asked = {message.dm: message for message in world.gateway.delivered}
    assert asked["console"].buttons and not asked["second"].buttons
    assert "needs an admin's approval" in asked["second"].text
    assert approval_id in await say("/approvals")
    assert "for admin conversations" in await say(f"/approve {approval_id}")
    forged = ButtonPress(
        gateway="bot",
        user_id="7",
        chat_id="7",
        data=asked["console"].buttons[0].data,
        callback_id="1",
    )
    client = NatsControlClient(world.bus)
    assert "no longer open" in (await client.press(forged)).answer
    press = forged.model_copy(
        update={"gateway": "console", "user_id": "operator", "chat_id": "operator"}
    )
    assert (await client.press(press)).answer.startswith("Approved.")


@pytest.mark.parametrize("role", ["member", "guest"])
async def test_people_who_do_not_decide_change_nothing_of_the_agent(
    world: World, agent: AgentHand, say: Any, role: str
) -> None:
    name_people(world, role)
    await serve(world, "second")
    for text in ("/stop", "/reset", "/continue", " /continue", "/model llm default", "/cost"):
        assert "for admin conversations" in await say(text), text
    assert "main is running" in await say("/status")
    own = await say("/cores")
    assert ("for admin conversations" in own) is (role == "guest")
    assert (await world.get("/v1/agents/main")).json()["state"] == "running"
    assert "main is running" in await say("/status", "console")


async def test_memory_is_that_of_the_person_as_soon_as_a_conversation_is_linked(
    world: World, agent: AgentHand
) -> None:
    name_people(world, "member")
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["dms"]["phone"] = {"gateway": "bot", "user_id": "8"}
    path.write_text(json.dumps(config))
    await serve(world, "second", "phone")
    read: list[MemoryReader | None] = []

    async def ensure(space: EnsureSpace) -> Empty:
        return Empty()

    async def query(asked: MemoryQuery) -> MemoryHits:
        read.append(asked.reader)
        return MemoryHits(hits=(), arms_used=("text",))

    async def ask(dm: str) -> MemoryReader | None:
        given: JsonObject = {"store": "session", "query": "tea"}
        tool = HostToolRequest(tool_name="choir.memory.query", call_id="c1", input=given, dm=dm)
        answer = await agent.call("EXECUTE_HOST_TOOL", tool)
        assert HostToolResponse.model_validate_json(answer).status == "success", answer
        return read[-1]

    async with world.bus.serve(
        "choir-memory",
        "1.0.0",
        Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
        Endpoint(subjects.query_memory(), MemoryQuery, query),
    ):
        bobs, both = MemoryReader(conversations=("second",)), ("console", "phone")
        assert await ask("second") == bobs
        assert await ask("phone") == MemoryReader(conversations=("phone",))
        identity = {"gateway": "bot", "user": "8"}
        assert (await world.post("/v1/people/ada/identities", json=identity)).status_code == 201
        assert await ask("phone") == MemoryReader(conversations=both, with_older=True)
        assert await ask("") == MemoryReader(conversations=both, with_older=True)
        assert await ask("second") == bobs
        assert (await world.delete("/v1/people/ada/identities/bot/8")).status_code == 200
        assert await ask("phone") == MemoryReader(conversations=("phone",))
        # a conversation that has left the agent still counts
        await serve(world)
        assert await ask("") == MemoryReader(conversations=("console",), with_older=True)


async def test_a_conversation_is_not_continued_in_that_of_another_person(
    world: World, agent: AgentHand
) -> None:
    name_people(world, "member")
    await serve(world)
    agent.say("Ada told me about the otter.")
    await agent.flush()
    fresh = await stop_and_start(world, agent, "Of an otter.", dm="second")
    hello = await fresh.hello()
    assert hello.continues == agent.spec.session_id and hello.snapshot is None


async def test_a_code_links_another_conversation_to_the_same_person(
    world: World, agent: AgentHand, say: Any
) -> None:
    name_people(world, "member")
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["dms"]["phone"] = {"gateway": "bot", "user_id": "8"}
    path.write_text(json.dumps(config))
    await serve(world, "second", "phone")
    text = await say("/link", "console")
    code = re.search(r"/link (\w{8})", text)
    assert code is not None
    # bob is somebody: the code neither gives him the owner's rights nor gives him away, and stays valid
    assert "bob's already" in await say(f"/link {code[1]}")
    assert "not valid" in await say("/link AAAAAAAA", "phone")
    known = {"console": "ada", "second": "bob", "phone": ""}
    people, version = await conversations_of(agent, 0)
    assert people == known
    assert "ada's, with the role owner" in await say(f"/link {code[1]}", "phone")
    assert "ada's already" in await say(f"/link {code[1]}", "phone")
    assert "Resources:" in await say("/status", "phone")
    assert "/approve" in await say("/help", "phone")
    sweep = world.control.services.sessions.conversations.sweep
    await sweep()
    people, _ = await conversations_of(agent, version)
    assert people == {**known, "phone": "ada"}
    await world.stop()
    await world.start()
    view = (await world.get("/v1/people/ada")).json()
    linked = [it for it in view["identities"] if it["source"] == "link"]
    # an erasure of the person covers both conversations, and not that of another person
    erasure = (await world.get("/v1/people/ada/erasure")).json()
    assert (erasure["person"], erasure["dms"]) == ("ada", ["console", "phone"])
    of_dm = (await world.get("/v1/dms/console/erasure")).json()
    assert of_dm["dms"] == ["console"] and of_dm["digest"] != erasure["digest"]
    assert linked == [{"gateway": "bot", "user": "8", "source": "link", "dms": ["phone"]}]
    assert (await world.delete("/v1/people/ada/identities/bot/8")).status_code == 200
    assert "/approve" not in await say("/help", "phone")
    await world.control.services.sessions.conversations.sweep()
    again = await world.agent()
    await again.hello()
    people, _ = await conversations_of(again, 0)
    assert people == known
    body = {"gateway": "bot", "user": "7"}
    taken = await world.post("/v1/people/ada/identities", json=body)
    assert taken.status_code == 409 and "bob already" in taken.text


async def test_a_guest_gets_no_code(world: World, agent: AgentHand, say: Any) -> None:
    name_people(world, "guest")
    await serve(world, "second")
    assert "for admin conversations" in await say("/link")


async def test_operators_list_link_and_unlink_people(world: World, agent: AgentHand) -> None:
    name_people(world, "member")
    await serve(world, "second")
    shell = ChoirctlRunner(world.home, {"CHOIR_URL": world.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN})

    def use_commands() -> list[dict[str, Any]]:
        people: list[dict[str, Any]] = shell.data("person", "list")
        linked = shell.data("person", "link", "bob", "console", "elsewhere")
        assert linked["identities"][1]["source"] == "link"
        assert shell.data("person", "show", "bob") == linked
        unlinked = shell.data("person", "unlink", "bob", "console", "elsewhere")
        assert len(unlinked["identities"]) == 1
        assert "bob" in shell.succeeds("person", "list")
        return people

    async with agent.beating():
        people = await asyncio.to_thread(use_commands)
    assert [it["name"] for it in people] == ["ada", "bob"]
    assert (await world.get("/v1/people")).json()["items"] == people
