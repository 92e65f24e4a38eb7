"""Heartbeats duplicated, reordered, gapped, forked and from old epochs, at random (GUARANTEES R7)."""

import random
from dataclasses import dataclass, field

import pytest

from choir_common.clock import SystemClock
from choir_common.eventlog.chain import Head, head_of, link
from choir_common.wire.events import Event, Reply, SessionResumed
from choir_common.wire.rpc import HeartbeatRequest
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

STEPS = 250


@dataclass
class Model:
    """What the durable log must be, and every heartbeat that was ever sent."""

    log: list[Event]
    said: list[str] = field(default_factory=list)
    sent: list[HeartbeatRequest] = field(default_factory=list)

    @property
    def head(self) -> Head:
        return head_of(self.log[-1])

    def grow(self, agent: AgentHand, count: int, dice: random.Random) -> list[Event]:
        """Return events that follow the durable head."""
        head, events = self.head, list[Event]()
        for _ in range(count):
            text = f"{len(self.sent)}-{dice.random()}"
            words = Reply(turn_id=None, dm="console", text=text, kind="notice")
            payload = words if dice.random() < 0.5 else SessionResumed(epoch=1)
            events.append(link(head, agent.spec.session_id, "edge", payload, SystemClock().now()))
            head = head_of(events[-1])
        return events

    def take(self, events: list[Event]) -> None:
        """Count events as durable."""
        self.log += events
        self.said += [str(e.payload["text"]) for e in events if e.type == "reply"]


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_arrives_the_log_is_one_chain_and_words_are_said_once(
    world: World, agent: AgentHand, seed: int
) -> None:
    dice, model = random.Random(seed), Model(list(agent.log))
    old: list[AgentHand] = []
    for _ in range(STEPS):
        match dice.choice(["append", "append", "resend", "overlap", "fork", "gap", "old", "crash"]):
            case "append":
                events = model.grow(agent, dice.randint(0, 4), dice)
                request = agent.heartbeat(events, model.head)
                assert (await agent.post("HEARTBEAT", request)).status_code == 200
                model.sent.append(request)
                model.take(events)
            case "resend" if model.sent:
                request = dice.choice(model.sent).model_copy(update={"epoch": agent.spec.epoch})
                answer = await agent.post("HEARTBEAT", request)
                assert answer.json()["ack_rev"] == request.new_rev
            case "overlap":
                cut = dice.randint(1, len(model.log))
                events = model.grow(agent, dice.randint(1, 3), dice)
                request = agent.heartbeat([*model.log[cut:], *events], head_of(model.log[cut - 1]))
                assert (await agent.post("HEARTBEAT", request)).status_code == 200
                model.take(events)
            case "fork" if len(model.log) > 1:
                base = dice.choice(model.log[:-1])
                twin = link(
                    head_of(base),
                    agent.spec.session_id,
                    "edge",
                    SessionResumed(epoch=dice.randint(100, 999)),
                    SystemClock().now(),
                )
                answer = await agent.post("HEARTBEAT", agent.heartbeat([twin], head_of(base)))
                assert answer.status_code == 409
            case "gap":
                lost, kept = model.grow(agent, 2, dice)
                answer = await agent.post("HEARTBEAT", agent.heartbeat([kept], head_of(lost)))
                assert answer.status_code == 409
            case "old" if old:
                ghost = dice.choice(old)
                answer = await ghost.post(
                    "HEARTBEAT", ghost.heartbeat(model.grow(ghost, 1, dice), model.head)
                )
                assert answer.status_code == 409
            case "crash" if dice.random() < 0.2:
                await world.database.execute(
                    "UPDATE choir_control.sessions SET resumes = 0, idle_resumes = 0"
                )
                starts = len(world.runtime.specs)
                world.runtime.die("main")
                old.append(agent)
                agent = await world.agent(starts=starts + 1)
                hello = await agent.hello()
                assert (hello.head_rev, hello.head_hash) == (model.head.rev, model.head.hash)
            case _:
                pass
    found = await world.verify(agent.spec.session_id)
    assert found["ok"] and found["events"] == len(model.log)
    assert await world.delivered(len(model.said)) == model.said
