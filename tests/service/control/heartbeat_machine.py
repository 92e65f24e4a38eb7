"""Random heartbeats to a running choird: whatever arrives, the log is one chain (GUARANTEES R7).

Hypothesis walks in a thread; what it decides is sent from the loop that serves choird.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import httpx2
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from choir_common.clock import SystemClock
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.wire.events import Event, Reply, SessionResumed, SessionStarted
from choir_common.wire.rpc import HeartbeatRequest
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World
from tests.support.state_machines import CountingMachine

T = TypeVar("T")
WITHIN_S = 300
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SIZES = st.integers(1, 4)
# where a walk looks into the past; taken modulo how much past there is
ANYWHERE = st.integers(0, 10_000)
CHANGES: dict[str, Any] = {
    "lane": "core:x",
    "type": "session_stopped",
    "at": "2026-01-01T00:00:00.000Z",
    "payload": {"forged": True},
    "hash": "0" * 64,
    "hash_prev": "f" * 64,
    "session_id": "ses_other",
}


class HeartbeatMachine(CountingMachine):
    """One session of the agent `main`, its log as it must be, and all that was ever sent."""

    world: ClassVar[World]
    loop: ClassVar[asyncio.AbstractEventLoop]
    gone: ClassVar[AgentHand | None] = None
    """The agent of the walk before: its session is over."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = self.do(self._begin())
        self.old: list[AgentHand] = []
        self.sent: list[HeartbeatRequest] = []
        self.said = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done by the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WITHIN_S)

    async def _begin(self) -> AgentHand:
        starts = len(self.world.runtime.specs)
        answer = await self.world.post("/v1/agents/main/start")
        assert answer.status_code == 200, answer.text
        agent = await self.world.agent(starts + 1)
        await agent.hello()
        self.log = [self._after(agent, LogHead(), SessionStarted(agent_id="main", epoch=1))]
        answer = await agent.post("HEARTBEAT", agent.heartbeat(self.log, LogHead()))
        assert answer.status_code == 200, answer.text
        return agent

    def _after(self, agent: AgentHand, head: LogHead, payload: Any) -> Event:
        return link_event(head, agent.spec.session_id, "edge", payload, SystemClock().now())

    @property
    def head(self) -> LogHead:
        return head_of(self.log[-1])

    def grow(self, text: str, count: int) -> list[Event]:
        """Return events that follow the durable head; every other one says something."""
        head, events = self.head, list[Event]()
        for number in range(count):
            words = Reply(turn_id=None, dm="console", text=f"{number}{text}", kind="notice")
            payload = SessionResumed(epoch=1) if number % 2 else words
            events.append(self._after(self.agent, head, payload))
            head = head_of(events[-1])
        return events

    def take(self, request: HeartbeatRequest) -> None:
        """Count what a heartbeat brought as durable."""
        news = [event for event in request.patches if event.rev > self.head.rev]
        self.sent.append(request)
        self.log += news
        self.said += sum(event.type == "reply" for event in news)

    def send(self, *requests: HeartbeatRequest, agent: AgentHand | None = None) -> list[int]:
        """Send heartbeats at once; return their status codes."""
        return [answer.status_code for answer in self.do(self._send(agent or self.agent, requests))]

    async def _send(
        self, agent: AgentHand, requests: tuple[HeartbeatRequest, ...]
    ) -> list[httpx2.Response]:
        return await asyncio.gather(*(agent.post("HEARTBEAT", each) for each in requests))

    @rule(text=TEXTS, count=st.integers(0, 4))
    def follows(self, text: str, count: int) -> None:
        request = self.agent.heartbeat(self.grow(text, count), self.head)
        assert self.send(request) == [200]
        self.take(request)

    @precondition(lambda self: self.sent)
    @rule(which=ANYWHERE)
    def comes_again(self, which: int) -> None:
        request = self.sent[which % len(self.sent)]
        request = request.model_copy(update={"epoch": self.agent.spec.epoch})
        [answer] = self.do(self._send(self.agent, (request,)))
        assert (answer.status_code, answer.json()["ack_rev"]) == (200, request.new_rev)

    @rule(text=TEXTS, count=SIZES)
    def comes_twice_at_once(self, text: str, count: int) -> None:
        request = self.agent.heartbeat(self.grow(text, count), self.head)
        assert self.send(request, request) == [200, 200]
        self.take(request)

    @rule(text=TEXTS, count=SIZES)
    def two_futures_at_once(self, text: str, count: int) -> None:
        requests = [self.agent.heartbeat(self.grow(text + side, count), self.head) for side in "ab"]
        codes = self.send(*requests)
        assert sorted(codes) == [200, 409]
        self.take(requests[codes.index(200)])

    @rule(text=TEXTS, count=SIZES, cut=ANYWHERE)
    def overlaps(self, text: str, count: int, cut: int) -> None:
        cut = 1 + cut % len(self.log)
        events = [*self.log[cut:], *self.grow(text, count)]
        request = self.agent.heartbeat(events[:1_000], head_of(self.log[cut - 1]))
        assert self.send(request) == [200]
        self.take(request)

    @rule(text=TEXTS, count=st.integers(2, 4))
    def arrives_out_of_order(self, text: str, count: int) -> None:
        events = self.grow(text, count)
        first = self.agent.heartbeat(events[:1], self.head)
        second = self.agent.heartbeat(events[1:], head_of(events[0]))
        assert self.send(second) == [409]
        assert self.send(first) == [200]
        assert self.send(second) == [200]
        self.take(first)
        self.take(second)

    @precondition(lambda self: len(self.log) > 1)
    @rule(text=TEXTS, count=SIZES, where=ANYWHERE)
    def forks(self, text: str, count: int, where: int) -> None:
        base = head_of(self.log[where % (len(self.log) - 1)])
        events = list[Event]()
        for number in range(count):
            words = Reply(turn_id=None, dm="console", text=f"fork{number}{text}", kind="notice")
            events.append(self._after(self.agent, base, words))
            base = head_of(events[-1])
        start = head_of(self.log[events[0].rev - 2])
        assert self.send(self.agent.heartbeat(events, start)) == [409]

    @rule(text=TEXTS, count=st.integers(2, 4))
    def leaves_a_gap(self, text: str, count: int) -> None:
        events = self.grow(text, count)
        assert self.send(self.agent.heartbeat(events[1:], head_of(events[0]))) == [409]

    @rule(text=TEXTS, count=SIZES, which=ANYWHERE, field=st.sampled_from(sorted(CHANGES)))
    def is_forged(self, text: str, count: int, which: int, field: str) -> None:
        events = self.grow(text, count)
        at = which % count
        events[at] = events[at].model_copy(update={field: CHANGES[field]})
        assert self.send(self.agent.heartbeat(events, self.head)) == [400]

    @precondition(lambda self: self.old)
    @rule(text=TEXTS, which=ANYWHERE, claims_new=st.booleans())
    def comes_from_an_old_epoch(self, text: str, which: int, claims_new: bool) -> None:
        ghost = self.old[which % len(self.old)]
        request = ghost.heartbeat(self.grow(text, 1), self.head)
        if claims_new:
            request = request.model_copy(update={"epoch": self.agent.spec.epoch})
        assert self.send(request, agent=ghost) == [409]

    @precondition(lambda self: self.gone is not None)
    @rule(text=TEXTS)
    def comes_from_a_session_that_is_over(self, text: str) -> None:
        assert self.gone is not None
        request = self.agent.heartbeat(self.grow(text, 1), self.head)
        assert self.send(request, agent=self.gone) == [409]

    @precondition(lambda self: len(self.old) < 5)
    @rule()
    def crashes(self) -> None:
        self.old.append(self.agent)
        self.agent = self.do(self._resume())

    async def _resume(self) -> AgentHand:
        forgiven = "UPDATE choir_control.sessions SET resumes = 0, idle_resumes = 0"
        await self.world.database.execute(forgiven)
        starts = len(self.world.runtime.specs)
        self.world.runtime.die("main")
        agent = await self.world.agent(starts + 1)
        hello = await agent.hello()
        assert (hello.head_rev, hello.head_hash) == (self.head.rev, self.head.hash)
        return agent

    def teardown(self) -> None:
        """The log is what it must be, said once, and its session ends."""
        self.do(self._end())

    async def _end(self) -> None:
        session_id, world = self.agent.spec.session_id, self.world
        found = await world.verify(session_id)
        assert (found["ok"], found["events"]) == (True, len(self.log)), found
        count = "SELECT count(*) FROM choir_control.outbox WHERE session_id = $1"
        assert await world.database.fetchval(count, session_id) == self.said
        stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
        await world.until_status(session_id, "stopping")
        world.runtime.die("main")
        assert (await stopping).status_code == 200
        # killed while it stopped: what may be open is left to the next start, unless that is given up, too
        await world.until_status(session_id, "suspended")
        given_up = await world.post("/v1/agents/main/stop")
        assert given_up.status_code == 200, given_up.text
        await world.until_status(session_id, "stopped")
        for hand in world.hands:
            if hand is not self.agent:
                await hand.client.aclose()
        world.hands[:] = [self.agent]
        world.runtime.specs.clear()
        HeartbeatMachine.gone = self.agent
