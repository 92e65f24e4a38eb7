"""A person follows the own conversations: answers in one arrive in the other as copies."""

import json
from typing import Any

import pytest

from choir_common.wire.attachments import SentFile
from choir_common.wire.events import Reply
from choir_control.agents.erasure.person_store import PersonStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import answer, serve, take_up
from tests.service.control.test_files import workspace
from tests.service.control.world import World


async def name_people(world: World, *, bob_has_second: bool = False) -> None:
    """Give `console` and, unless it is Bob's, `second` to Ada; `phone` is Bob's."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    identities = [{"gateway": "console", "user": "operator"}, {"gateway": "bot", "user": "7"}]
    bobs = [{"gateway": "bot", "user": "8"}]
    if bob_has_second:
        bobs.append(identities.pop())
    config["people"] = {
        "ada": {"role": "owner", "identities": identities},
        "bob": {"role": "member", "identities": bobs},
    }
    config["dms"]["phone"] = {"gateway": "bot", "user_id": "8"}
    path.write_text(json.dumps(config))
    await serve(world, "second", "phone")


@pytest.fixture
def say(world: World) -> Any:
    count = 0

    async def typed(text: str, dm: str) -> str:
        nonlocal count
        count += 1
        accepted = await world.say(text, f"typed{count}", dm)
        assert accepted.command
        return accepted.note or ""

    return typed


async def test_answers_arrive_where_their_person_follows_and_nowhere_else(
    world: World, agent: AgentHand, say: Any
) -> None:
    await name_people(world)
    assert "/follow on adds" in await say("/follow", "second")
    assert "also arrive here" in await say("/follow on", "second")
    # a choice of somebody else, whose conversations are others
    assert "also arrive here" in await say("/follow on", "phone")
    await world.say("Is it\nraining?", "1")
    question = await agent.next_message()
    await take_up(agent, question)
    await answer(agent, question, "It is.")
    await world.delivered(2)
    copy, reply = sorted(world.gateway.delivered, key=lambda it: it.dm, reverse=True)
    assert (reply.dm, reply.text, reply.kind) == ("console", "It is.", "answer")
    assert (copy.dm, copy.kind, copy.answers, copy.gateway) == ("second", "message", None, "bot")
    assert copy.text == "From console:\n> Is it\n> raining?\n\nIt is."
    # an erasure of the one conversation takes the copy in the other one with it
    erasure = PersonStore(world.database)
    assert (await erasure.count_rows(["console"], []))["outbox"] >= 2
    await erasure.erase_rows(["console"], [])
    left = await world.database.fetchval(
        "SELECT text FROM choir_control.outbox WHERE outbox_id = $1", copy.outbox_id
    )
    assert left == "(erased)"
    # what is said where the copies arrive is not copied back, and a copy is not copied
    await world.say("and there?", "2", "second")
    question = await agent.next_message()
    await take_up(agent, question)
    await answer(agent, question, "Not there.")
    assert (await world.delivered(3))[2] == "Not there."
    assert "/follow on adds" in await say("/follow off", "second")
    await agent.reply("later", kind="report")
    await agent.reply("latest", kind="report")
    assert (await world.delivered(5))[3:] == ["later", "latest"]
    # the choice outlives choird
    await world.stop()
    await world.start()
    assert "also arrive here" in await say("/follow", "phone")


async def test_a_report_with_files_is_copied_without_them(
    world: World, agent: AgentHand, say: Any
) -> None:
    await name_people(world)
    await say("/follow on", "second")
    path = workspace(world) / ".choirtmp/send/1"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a plan")
    report = Reply(
        turn_id="t",
        dm="console",
        text="",
        kind="report",
        attachments=(SentFile(path=".choirtmp/send/1", name="plan.pdf", kind="document"),),
    )
    agent.add(report)
    await agent.flush()
    await world.delivered(2)
    [copy] = [it for it in world.gateway.delivered if it.dm == "second"]
    assert copy.text == "From console:\n\nFiles in console: plan.pdf"
    assert copy.attachments == ()


async def test_nobody_follows_the_conversation_of_another(
    world: World, agent: AgentHand, say: Any
) -> None:
    await name_people(world, bob_has_second=True)
    await say("/follow on", "second")
    await world.say("a secret", "1")
    question = await agent.next_message()
    await take_up(agent, question)
    await answer(agent, question, "It is safe.")
    # Bob's next answer shows that nothing came before it; his other conversation does not follow
    await world.say("hello", "2", "second")
    question = await agent.next_message()
    await take_up(agent, question)
    await answer(agent, question, "Hello, Bob.")
    await world.delivered(2)
    assert [it.text for it in world.gateway.delivered if it.dm != "console"] == ["Hello, Bob."]


async def test_a_conversation_of_nobody_cannot_follow(
    world: World, agent: AgentHand, say: Any
) -> None:
    await serve(world, "second")
    assert "of somebody in `people`" in await say("/follow on", "console")
    assert "neither on nor off" in await say("/follow maybe", "console")
