"""Ask a lane's model for one JSON answer, without tools. Called by `compact` and `session_summary`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson

from choir_agent import spans
from choir_agent.models.choice import model_of
from choir_agent.models.metered import MeteredModel
from choir_agent.models.model import Thought
from choir_agent.prompt.assemble import Prompt
from choir_agent.prompt.render import system_message
from choir_agent.settings import CurrentSettings


class Asker:
    """Makes the model calls of compaction, within the session's budget."""

    def __init__(self, model: MeteredModel, current: Callable[[], CurrentSettings]) -> None:
        self._model = model
        self._current = current

    def context_window(self, lane: str) -> int:
        """Return the tokens that a lane's model takes."""
        return model_of(self._current().settings, lane).context_window

    @asynccontextmanager
    async def ask(
        self, lane: str, instructions: str, material: str, *further: bytes
    ) -> AsyncIterator[Thought]:
        """Yield the answer; commit the event with its usage inside the block.

        Raises BudgetSpent, RateLimited or ModelFailed.
        """
        now = self._current()
        model = model_of(now.settings, lane)
        prompt = Prompt((system_message(instructions), user_message(material), *further))
        with spans.compaction(lane):
            async with self._model.thought(model, now.secret(model.secret), prompt) as thought:
                yield thought


def user_message(text: str) -> bytes:
    """Render what is asked."""
    return orjson.dumps({"role": "user", "content": text})


def correction(answer: str, fault: str) -> tuple[bytes, bytes]:
    """Render the model's own answer and what is wrong with it."""
    said = orjson.dumps({"role": "assistant", "content": answer})
    return said, user_message(f"That cannot be used: {fault} Answer again with the whole object.")
