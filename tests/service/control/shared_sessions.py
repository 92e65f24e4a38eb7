"""Sessions with several conversations, as config.json names them."""

import json

from choir_common.wire.events import Reply, UserMessageStarted
from choir_common.wire.signals import UserMessageSignal
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World


def name_conversations(world: World, *dms: str, agent_id: str = "main") -> None:
    """Name the further conversations of an agent in config.json."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["agents"][agent_id]["conversations"] = list(dms)
    path.write_text(json.dumps(config))


async def serve(world: World, *dms: str, agent_id: str = "main") -> None:
    """Give an agent these further conversations, by a change of the configuration."""
    name_conversations(world, *dms, agent_id=agent_id)
    for step in ("load", "apply"):
        answer = await world.post(f"/v1/config/{step}")
        assert answer.status_code == 200, answer.text


async def is_leased(world: World, dm: str) -> bool:
    """Return whether a session has the lease of a conversation."""
    row = await world.database.fetchval(
        "SELECT true FROM choir_control.leases WHERE resource = $1", f"dm:{dm}"
    )
    return bool(row)


async def take_up(agent: AgentHand, signal: UserMessageSignal) -> None:
    """Take up a message in the lane of its conversation."""
    lane = "edge" if signal.dm == "console" else f"edge:{signal.dm}"
    agent.add(
        UserMessageStarted(
            turn_id=signal.inbox_id, inbox_id=signal.inbox_id, dm=signal.dm, text=signal.text
        ),
        lane,
    )
    await agent.flush()


async def answer(agent: AgentHand, signal: UserMessageSignal, text: str) -> None:
    """Answer a message in its conversation."""
    lane = "edge" if signal.dm == "console" else f"edge:{signal.dm}"
    reply = Reply(
        turn_id=signal.inbox_id, dm=signal.dm, text=text, kind="answer", answers=signal.inbox_id
    )
    agent.add(reply, lane)
    await agent.flush()
