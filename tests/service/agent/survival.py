"""What must hold after a model misbehaved, whatever it did: an answer to each message, a clear trail."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.responses import Response

from choir_agent.log.committed import Committed
from choir_agent.log.fold import step
from choir_agent.log.state import SessionState, digest_of
from choir_common.eventlog.chain import first_break
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    Event,
    EventPayload,
    ModelOutput,
    Reply,
    ToolCallRequested,
    ToolResultCommitted,
    payload_of,
)
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, Script, run_scripted, says

BUDGETS = Budgets(max_steps_per_turn=6, max_tool_calls_per_turn=20, max_core_jobs=3)
STILL_THERE = "are you still there?"
YES = "Yes, I am."
# what no single event may exceed, whatever a model writes
LARGEST_EVENT = 1_000_000


def fold(events: list[Event]) -> SessionState:
    """Return the state a log adds up to."""
    state = SessionState()
    for event in events:
        committed = Committed(event.rev, event.hash, event.lane, event.at, payload_of(event))
        state = step(state, committed)
    return state


@dataclass
class Survived:
    """An agent that went on, and what its model did to it."""

    control: ControlStandIn
    timeout_s: float = 30

    async def goes_on(self) -> Reply:
        """Let the model loose on one message; return what the user was told in the end."""
        await self.control.say("go")
        await self.closing("inb_1")
        return await self.closing("inb_1")

    async def answers_the_next(self) -> None:
        """Ask another message, and get the right answer."""
        await self.control.say(STILL_THERE, "inb_next")
        assert (await self.closing("inb_next")).text == YES

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
    assert first_break(events) is None
    assert digest_of(fold(events)) == digest_of(fold(events))
    assert max(len(event.model_dump_json()) for event in events) < LARGEST_EVENT
    requested = [p.call_id for p in payloads if isinstance(p, ToolCallRequested)]
    results = [p.call_id for p in payloads if isinstance(p, ToolResultCommitted)]
    assert len(set(requested)) == len(requested)
    assert sorted(requested) == sorted(results)
    answered = Counter(p.answers for p in payloads if isinstance(p, Reply) and p.answers)
    assert set(answered.values()) == {1}
