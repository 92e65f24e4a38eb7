"""Make one model call for a turn, with the one retry that spec 7.7 allows.

Called by `turn`; what comes next is `models`, and the arbiter, which records the output.
"""

import asyncio
from collections.abc import Callable

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.log.state import TurnState
from choir_agent.memory.window import EventWindow
from choir_agent.models.model import Model, ModelFailed, Thought
from choir_agent.prompt.assemble import Assembler
from choir_agent.settings import CurrentSettings
from choir_agent.tools.registry import Registry
from choir_common.errors import RateLimited
from choir_common.ids import new_id
from choir_common.wire.events import ModelOutput, Reply, ToolCall

log = structlog.get_logger("choir.agent.think")

LONGEST_WAIT_S = 120.0


class Thinker:
    """Thinks for one lane."""

    def __init__(
        self,
        lane: str,
        arbiter: Arbiter,
        model: Model,
        window: EventWindow,
        assembler: Assembler,
        registry: Registry,
        current: Callable[[], CurrentSettings],
    ) -> None:
        self._lane = lane
        self._arbiter = arbiter
        self._model = model
        self._window = window
        self._assembler = assembler
        self._registry = registry
        self._current = current

    async def think(self, turn: TurnState) -> None:
        """Ask the model and record what it says.

        Raises ModelFailed with a message for the user when there is no usable answer.
        """
        try:
            thought = await self._ask()
        except RateLimited as error:
            await self._wait(turn, error)
            try:
                thought = await self._ask()
            except RateLimited as again:
                raise ModelFailed(f"{again.message}, also after waiting") from again
        self._record(turn, thought)

    async def _ask(self) -> Thought:
        now = self._current()
        turns = self._window.turns(now.settings.event_window)
        prompt = self._assembler.assemble(turns)
        model = now.settings.model
        return await self._model.think(model, now.secret(model.secret), prompt)

    async def _wait(self, turn: TurnState, error: RateLimited) -> None:
        wait_s = error.retry_after_s
        if wait_s is None:
            wait_s = self._current().settings.rate_limit_retry_ms / 1000
        if wait_s > LONGEST_WAIT_S:
            raise ModelFailed(f"{error.message} and asks to wait {wait_s:.0f} s") from error
        log.info("rate limited; waiting", wait_s=wait_s)
        if not turn.noticed:
            text = (
                f"The model provider limits my requests; I try again in {max(1, round(wait_s))} s."
            )
            notice = Reply(turn_id=turn.turn_id, dm=turn.dm, text=text, kind="notice")
            self._arbiter.commit(self._lane, notice)
        await asyncio.sleep(wait_s)

    def _record(self, turn: TurnState, thought: Thought) -> None:
        calls = tuple(
            ToolCall(
                # ids of our own: providers repeat theirs, and a call_id is an idempotency key
                call_id=new_id("call"),
                tool=self._registry.canonical(call.name) or call.name,
                arguments=call.arguments,
            )
            for call in thought.calls
        )
        output = ModelOutput(
            turn_id=turn.turn_id,
            text=thought.text,
            tool_calls=calls,
            model=thought.model,
            finish_reason=thought.finish_reason,
            prompt_tokens=thought.prompt_tokens,
            completion_tokens=thought.completion_tokens,
            duration_ms=thought.duration_ms,
        )
        # its calls are requested, or its words said, in the next moment: one heartbeat for both
        self._arbiter.commit(self._lane, output, more_follows=True)
