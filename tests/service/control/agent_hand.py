"""An agent as control sees it: a client of the eight verbs and of the signal stream."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from choir_common.clock import SystemClock
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.http.client import make_client
from choir_common.http.response_parser import parse_events, read_problem
from choir_common.ids import new_id
from choir_common.wire.events import Event, EventPayload, Reply, SessionStarted, UserMessageStarted
from choir_common.wire.rpc import HeartbeatRequest, HelloResponse
from choir_common.wire.signals import SIGNAL_BODY, Signal, UserMessageSignal
from choir_control.agents.runtimes.port import ControlAddress, LaunchSpec


class AgentHand:
    """Speaks for one epoch of one agent."""

    def __init__(self, spec: LaunchSpec, endpoint: str | None = None) -> None:
        self.spec = spec
        self.head = LogHead()
        self.acked = LogHead()
        self.log: list[Event] = []
        way = ControlAddress(endpoint) if endpoint else spec.control_address(str(spec.socket_dir))
        self.client = make_client(way.endpoint, timeout_s=30, ca_pem=way.ca_pem or None)
        self.headers = {
            "Authorization": f"Bearer {spec.lease_token}",
            "X-Choir-Session-Id": spec.session_id,
            "X-Choir-Request-Id": "req-1",
        }

    async def post(self, verb: str, body: Any, **headers: str) -> httpx2.Response:
        """Send a verb and return whatever came back."""
        text = body if isinstance(body, bytes) else body.model_dump_json().encode()
        more = {"Content-Type": "application/json", **headers}
        return await self.client.post(
            f"/rpc/{verb}", content=text, headers={**self.headers, **more}
        )

    async def call(self, verb: str, body: Any) -> bytes:
        """Send a verb and return the answer's body; raises the ChoirError control raised."""
        answer = await self.post(verb, body)
        if answer.is_error:
            raise read_problem(answer.status_code, answer.content)
        return answer.content

    def hello_body(self) -> bytes:
        """Return the body of INIT_HELLO."""
        return (
            f'{{"agent_id":"{self.spec.agent_id}","session_id":"{self.spec.session_id}",'
            f'"epoch":{self.spec.epoch},"image_version":"","tool_manifest_hash":"",'
            '"skill_manifest_hash":""}'
        ).encode()

    async def hello(self) -> HelloResponse:
        """Introduce the agent and go on where the log ends."""
        answer = HelloResponse.model_validate_json(await self.call("INIT_HELLO", self.hello_body()))
        self.head = self.acked = LogHead(answer.head_rev, answer.head_hash)
        return answer

    def add(self, payload: EventPayload, lane: str = "edge") -> Event:
        """Append an event to the agent's own log; `flush` makes it durable."""
        event = link_event(self.head, self.spec.session_id, lane, payload, SystemClock().now())
        self.log.append(event)
        self.head = head_of(event)
        return event

    def heartbeat(self, events: list[Event] | None = None, base: LogHead | None = None) -> Any:
        """Return a heartbeat with what is not acknowledged yet, or with `events` after `base`."""
        start = base or self.acked
        given = events if events is not None else [e for e in self.log if e.rev > start.rev]
        end = head_of(given[-1]) if given else start
        return HeartbeatRequest(
            agent_id=self.spec.agent_id,
            epoch=self.spec.epoch,
            base_rev=start.rev,
            new_rev=end.rev,
            patches=tuple(given),
            config_version=1,
            hash_prev=start.hash,
            hash_new=end.hash,
            timestamp="",
        )

    async def flush(self) -> None:
        """Make everything durable."""
        await self.call("HEARTBEAT", self.heartbeat())
        self.acked = self.head

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Give signs of life while the block runs, however slow what happens in it."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(0.5)
                await self.flush()

        task = asyncio.create_task(beat())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def begin(self) -> None:
        """Say hello and write the first event."""
        answer = await self.hello()
        if answer.status == "fresh":
            self.add(SessionStarted(agent_id=self.spec.agent_id, epoch=1), "session")
            await self.flush()

    async def take_up(self, signal: UserMessageSignal) -> str:
        """Write that a message was taken up; return its turn."""
        turn = new_id("turn")
        self.add(
            UserMessageStarted(
                turn_id=turn, inbox_id=signal.inbox_id, dm=signal.dm, text=signal.text
            )
        )
        await self.flush()
        return turn

    async def take_up_if_new(self) -> None:
        """Take up the first message, if no epoch of this session has yet."""
        answer = await self.hello()
        if not any(event.type == "user_msg" for event in answer.tail_events):
            await self.take_up(await self.next_message())

    async def reply(self, text: str, answers: str | None = None, kind: str = "answer") -> None:
        """Write a reply and make it durable."""
        self.say(text, answers, kind)
        await self.flush()

    def say(self, text: str, answers: str | None = None, kind: str = "answer") -> Event:
        """Write a reply to the agent's own log."""
        return self.add(
            Reply(turn_id="t", dm="console", text=text, kind=kind, answers=answers)  # type: ignore[arg-type]
        )

    @contextlib.asynccontextmanager
    async def signals(self, after: int | None = None) -> AsyncIterator[AsyncIterator[Signal]]:
        """Follow the agent's signals."""
        more = {"Last-Event-ID": str(after)} if after is not None else {}
        timeout = httpx2.Timeout(30, read=None)
        async with self.client.stream(
            "GET", "/events", headers={**self.headers, **more}, timeout=timeout
        ) as answer:
            if answer.is_error:
                raise read_problem(answer.status_code, await answer.aread())
            yield _signals(answer)

    async def next_signal(self, after: int | None = None, within: float = 60) -> Signal:
        """Return the first signal there is."""
        async with asyncio.timeout(within), self.signals(after) as stream:
            async for signal in stream:
                return signal
        raise AssertionError("the stream ended")

    async def next_message(self, within: float = 60) -> UserMessageSignal:
        """Return the first user message that waits."""
        async with asyncio.timeout(within), self.signals() as stream:
            async for signal in stream:
                if isinstance(signal.body, UserMessageSignal):
                    return signal.body
        raise AssertionError("the stream ended")


async def _signals(answer: httpx2.Response) -> AsyncIterator[Signal]:
    async for event in parse_events(answer.aiter_bytes()):
        yield Signal(seq=int(event.id), body=SIGNAL_BODY.validate_json(event.data))
