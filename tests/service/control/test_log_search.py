"""An agent searches the stored log of its own session, and of no other."""

from typing import Any

import orjson

from choir_common.wire.events import SkillStarted, UserMessageStarted
from choir_common.wire.rpc import HOST_TOOL, LogMatches
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

TYPES = ["reply", "user_msg"]


async def ask(agent: AgentHand, **wanted: Any) -> LogMatches:
    asked = {"types": TYPES, "before_rev": 1_000, "limit": 50, **wanted}
    answer = await search(agent, asked)
    assert answer["status"] == "success", answer
    return LogMatches.model_validate_json(orjson.dumps(answer["output"]))


async def search(agent: AgentHand, asked: dict[str, Any]) -> dict[str, Any]:
    body = {"tool_name": HOST_TOOL, "call_id": "call_1", "input": asked}
    answer: dict[str, Any] = orjson.loads(await agent.call("EXECUTE_HOST_TOOL", orjson.dumps(body)))
    return answer


async def test_a_log_is_searched_by_words_and_by_hash(world: World, agent: AgentHand) -> None:
    agent.add(
        UserMessageStarted(turn_id="t", inbox_id="i1", dm="console", text='The "Übung" is blue')
    )
    agent.add(UserMessageStarted(turn_id="t", inbox_id="i2", dm="console", text="a blue boat"))
    agent.say("a boat")
    agent.add(SkillStarted(turn_id="t", skill="a boat", state="s", input={}, call_id="c"))
    await agent.flush()
    found = await ask(agent, mode="keyword", terms=["blue", "boat"])
    assert [event.rev for event in found.events] == [3, 4, 2], "most words, then the newest"
    assert found.events[0] == agent.log[2], "an event comes as it was stored, hash and all"
    assert [e.rev for e in (await ask(agent, mode="keyword", terms=['\\"übung\\"'])).events] == [2]
    older = await ask(agent, mode="keyword", terms=["boat"], before_rev=4)
    assert [event.rev for event in older.events] == [3]
    few = await ask(agent, mode="keyword", terms=["boat"], limit=1)
    assert [event.rev for event in few.events] == [4]
    named = await ask(agent, mode="hash", terms=[agent.log[2].hash[:8]])
    assert [event.rev for event in named.events] == [3]
    wild = await ask(agent, mode="hash", terms=["%"])
    assert wild.events == (), "a pattern's signs mean nothing"

    await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    other = await world.agent(2)
    await other.begin()
    assert (await ask(other, mode="keyword", terms=["boat"])).events == ()
    refused = await search(other, {"session_id": agent.spec.session_id, "mode": "keyword"})
    assert refused["status"] == "error" and refused["output"]["code"] == "bad_input"


async def test_an_answer_is_bounded_in_bytes_and_holds_the_best(
    world: World, agent: AgentHand
) -> None:
    for number in range(6):
        text = f"boat {number} " + "x" * 500_000
        agent.add(UserMessageStarted(turn_id="t", inbox_id=f"i{number}", dm="console", text=text))
        await agent.flush()
    found = await ask(agent, mode="keyword", terms=["boat"])
    assert [event.rev for event in found.events] == [7, 6, 5, 4]
