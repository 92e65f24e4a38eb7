"""The way of a message through control: in, to the agent, into the log, out."""

from choir_common.wire.operator import AgentView, LogVerification, SystemStatus
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World


async def test_a_message_is_offered_taken_up_answered_and_delivered(
    world: World, agent: AgentHand
) -> None:
    accepted = await world.say("hello", "1")
    assert (accepted.agent_id, accepted.agent_state, accepted.note) == ("main", "running", None)

    message = await agent.next_message()
    assert (message.inbox_id, message.text) == (accepted.inbox_id, "hello")
    await agent.take_up(message)
    await agent.reply("hi there", answers=message.inbox_id)

    assert await world.delivered(1) == ["hi there"]
    said = world.gateway.delivered[0]
    assert (said.dm, said.gateway, said.answers) == ("console", "console", message.inbox_id)
    assert said.rev == agent.head.rev
    found = LogVerification.model_validate(await world.verify(agent.spec.session_id), strict=False)
    assert found.ok and found.events == agent.head.rev


async def test_the_operator_sees_the_agent_and_the_system(world: World, agent: AgentHand) -> None:
    status = SystemStatus.model_validate_json((await world.get("/v1/status")).content)
    parts = {part.name: part.ok for part in status.parts}
    assert parts == {
        "control": True,
        "postgres": True,
        "nats": True,
        "runtime": True,
        "memory": False,
        "gateway": False,
        "browser": False,
        "egress": True,
    }
    ready = (await world.get("/readyz")).json()["parts"]
    assert {part["name"]: part["ok"] for part in ready} == parts
    details = {part.name: part.detail for part in status.parts}
    assert details["gateway"] == "no response; it may be restarting"
    assert "Errno" not in " ".join(details.values())
    assert status.model == "scripted" and next(a.agent_id for a in status.agents) == "main"
    view = AgentView.model_validate_json((await world.get("/v1/agents/main")).content)
    assert view.state == "running" and view.session_id == agent.spec.session_id
