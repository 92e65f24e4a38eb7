"""Make one model call for a turn, with the one retry that spec 7.7 allows.

Called by `turn`; what comes next is `models`, and the arbiter, which records the output.
"""

import asyncio
from collections.abc import Callable

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.log.state import EDGE, JobState, TurnState
from choir_agent.models.model import Model, ModelFailed, Thought
from choir_agent.prompt.assemble import Prompt
from choir_agent.settings import CurrentSettings
from choir_common.errors import RateLimited
from choir_common.ids import new_id
from choir_common.wire.config import AgentSettings, ModelConfig
from choir_common.wire.events import ModelOutput, Reply, ToolCall

log = structlog.get_logger("choir.agent.think")

LONGEST_WAIT_S = 120.0


def model_of(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return the model a lane thinks with: a fast one for the edge, a deep one for core jobs."""
    return settings.model if lane == EDGE else settings.core_model or settings.model


class Thinker:
    """Thinks for one lane."""

    def __init__(
        self,
        lane: str,
        arbiter: Arbiter,
        model: Model,
        make_prompt: Callable[[], Prompt],
        canonical: Callable[[str], str | None],
        current: Callable[[], CurrentSettings],
    ) -> None:
        self._lane = lane
        self._arbiter = arbiter
        self._model = model
        self._make_prompt = make_prompt
        self._canonical = canonical
        self._current = current

    async def think(self, work: TurnState | JobState) -> None:
        """Ask the model and record what it says.

        Raises ModelFailed with a message for the user when there is no usable answer.
        """
        try:
            thought = await self._ask()
        except RateLimited as error:
            await self._wait(work, error)
            try:
                thought = await self._ask()
            except RateLimited as again:
                raise ModelFailed(f"{again.message}, also after waiting") from again
        self._record(work, thought)

    async def _ask(self) -> Thought:
        now = self._current()
        prompt = self._make_prompt()
        model = model_of(now.settings, self._lane)
        return await self._model.think(model, now.secret(model.secret), prompt)

    async def _wait(self, work: TurnState | JobState, error: RateLimited) -> None:
        wait_s = error.retry_after_s
        if wait_s is None:
            wait_s = self._current().settings.rate_limit_retry_ms / 1000
        if wait_s > LONGEST_WAIT_S:
            raise ModelFailed(f"{error.message} and asks to wait {wait_s:.0f} s") from error
        log.info("rate limited; waiting", wait_s=wait_s)
        if not work.noticed:
            text = (
                f"The model provider limits my requests; I try again in {max(1, round(wait_s))} s."
            )
            notice = Reply(turn_id=work.turn_id, dm=work.dm, text=text, kind="notice")
            self._arbiter.commit(self._lane, notice)
        await asyncio.sleep(wait_s)

    def _record(self, work: TurnState | JobState, thought: Thought) -> None:
        calls = tuple(
            ToolCall(
                # ids of our own: providers repeat theirs, and a call_id is an idempotency key
                call_id=new_id("call"),
                tool=self._canonical(call.name) or call.name,
                arguments=call.arguments,
            )
            for call in thought.calls
        )
        output = ModelOutput(
            turn_id=work.turn_id,
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
