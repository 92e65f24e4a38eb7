"""What must hold after a model misbehaved, whatever it did: an answer to each message, a clear trail."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

from starlette.responses import Response

from choir_agent.log.session_state import SessionState
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    CoreStopped,
    Event,
    EventPayload,
    ModelOutput,
    Reply,
    ToolCallRequested,
    ToolResultCommitted,
)
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, Script, run_scripted, says
from tests.support.replay import assert_replay_is_deterministic

BUDGETS = Budgets(max_steps_per_turn=6, max_tool_calls_per_turn=20, max_core_jobs=3)
STILL_THERE = "are you still there?"
YES = "Yes, I am."
P = TypeVar("P", bound=EventPayload)
# what no single event may exceed, whatever a model writes
LARGEST_EVENT = 1_000_000


@dataclass
class Survived:
    """An agent that went on, and what its model did to it."""

    control: ControlStandIn
    timeout_s: float = 30

    async def goes_on(self, inbox_id: str = "inb_1") -> Reply:
        """Let the model loose on one message; return what the user was told in the end."""
        await self.control.say("go", inbox_id)
        return await self.closing(inbox_id)

    async def answers_the_next(self, inbox_id: str = "inb_next") -> None:
        """Ask another message, and get the right answer."""
        await self.control.say(STILL_THERE, inbox_id)
        assert (await self.closing(inbox_id)).text == YES

    async def closing(self, inbox_id: str) -> Reply:
        """Wait for the one reply that closes a message."""

        def found() -> list[Reply]:
            return [r for r in self.control.replies() if r.answers == inbox_id]

        await self.control.until(lambda: bool(found()), self.timeout_s)
        (reply,) = found()
        return reply

    def results(self) -> list[ToolResultCommitted]:
        """Return how each call ended."""
        return [p for p in self.control.payloads() if isinstance(p, ToolResultCommitted)]

    def codes(self) -> Counter[str]:
        """Count what refused or failed calls were told."""
        return Counter(str(r.output.get("code", r.status)) for r in self.results())

    def all(self, kind: type[P]) -> list[P]:
        """Return the log's payloads of one kind."""
        return [p for p in self.control.payloads() if isinstance(p, kind)]

    async def ended(self, count: int = 1) -> list[CoreStopped]:
        """Wait until `count` core jobs have ended and each was reported to the user."""

        await self.control.until(lambda: len(self.all(CoreStopped)) >= count, self.timeout_s)
        await self.told(count)
        return self.all(CoreStopped)

    async def told(self, count: int) -> None:
        """Wait until the user got `count` reports."""

        def reports() -> int:
            return sum(reply.kind == "report" for reply in self.control.replies())

        await self.control.until(lambda: reports() >= count, self.timeout_s)

    def outputs(self, turn_id: str | None = None) -> list[ModelOutput]:
        """Return the model's outputs."""
        outputs = [p for p in self.control.payloads() if isinstance(p, ModelOutput)]
        return [o for o in outputs if turn_id in (None, o.turn_id)]


@contextlib.asynccontextmanager
async def survives(
    misbehave: Script, budgets: Budgets = BUDGETS, *, model_timeout_ms: int = 5_000
) -> AsyncIterator[Survived]:
    """Run an agent whose model misbehaves until it is asked whether it is still there.

    Afterwards: the next message is answered, the chain and the fold hold, every call has one result.
    """

    def script(asked: Asked) -> Response:
        if asked.lane == "edge" and STILL_THERE in asked.turn.user_text:
            return says(YES)
        return misbehave(asked)

    async with run_scripted(script) as model, run_control(model) as control:
        control.budgets = budgets
        control.model_timeout_ms = model_timeout_ms
        async with running_agent(control) as agent:
            survived = Survived(control)
            yield survived
            await survived.answers_the_next()
            assert not agent.done()
        check_trail(control.events, control.payloads())


def check_trail(events: list[Event], payloads: list[EventPayload]) -> None:
    """Assert what holds of every log."""
    state = assert_replay_is_deterministic(events)
    assert max(len(event.model_dump_json()) for event in events) < LARGEST_EVENT
    requested = [p.call_id for p in payloads if isinstance(p, ToolCallRequested)]
    results = [p.call_id for p in payloads if isinstance(p, ToolResultCommitted)]
    assert len(set(requested)) == len(requested)
    assert len(set(results)) == len(results)
    assert set(requested) - set(results) <= under_way(state)
    answered = Counter(p.answers for p in payloads if isinstance(p, Reply) and p.answers)
    assert set(answered.values()) == {1}


def under_way(state: SessionState) -> set[str]:
    """Return the calls of what is still at work."""
    works = (*state.jobs, *([state.turn] if state.turn else []))
    return {call.call.call_id for work in works for call in work.calls}
