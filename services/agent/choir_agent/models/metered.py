"""Call a model within the session's budget (spec 7.6): reserve before, settle after.

Used by the lanes and by compaction, which make no model call any other way; what comes next is a `Model`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from choir_agent.budgets.reserve import Purse
from choir_agent.memory.tokens import BYTES_PER_TOKEN, TokenMeter, bytes_of
from choir_agent.models.model import Model, Thought
from choir_agent.prompt.assemble import Prompt
from choir_common.wire.config import ModelConfig

USUAL_COMPLETION = 2_000
"""Tokens set aside for an answer whose length is not limited."""


class MeteredModel:
    """A model whose calls count."""

    def __init__(self, model: Model, purse: Purse, meter: TokenMeter) -> None:
        self._model = model
        self._purse = purse
        self._meter = meter

    @asynccontextmanager
    async def thought(
        self, settings: ModelConfig, api_key: str | None, prompt: Prompt, lane: str = ""
    ) -> AsyncIterator[Thought]:
        """Yield what the model says; commit the event with its usage inside the block.

        A lane's own prompts are estimated by what the provider counted for its last one.
        Raises BudgetSpent before any call is made, and whatever the model raises.
        """
        asked = self._meter.tokens(lane, bytes_of(prompt))
        with self._purse.reserve(asked + (settings.max_completion_tokens or USUAL_COMPLETION)):
            yield _with_usage(await self._model.think(settings, api_key, prompt), asked)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()


def _with_usage(thought: Thought, asked: int) -> Thought:
    """Put estimates where the provider sent no usage: what is not counted would be unlimited."""
    said = len(thought.text) + sum(len(call.name) + len(call.arguments) for call in thought.calls)
    return replace(
        thought,
        prompt_tokens=thought.prompt_tokens or asked,
        completion_tokens=thought.completion_tokens or said // BYTES_PER_TOKEN,
    )
