"""Model calls that return one JSON object, without tools. Called by `compact` and `session_summary`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import orjson
import structlog

from choir_agent import spans
from choir_agent.models.choice import model_of, origin_of
from choir_agent.models.metered import MeteredModel
from choir_agent.models.model import RequestRefused, Thought
from choir_agent.prompt.assemble import Prompt
from choir_agent.prompt.render import system_message
from choir_agent.settings import CurrentSettings

log = structlog.get_logger("choir.agent.compaction")


class Asker:
    """Client for the model calls of compaction, within the session's budget."""

    def __init__(self, model: MeteredModel, current: Callable[[], CurrentSettings]) -> None:
        self._model = model
        self._current = current
        self._without_json_mode: set[str] = set()

    def origin(self, lane: str) -> str:
        """Return the identifier of a lane's model."""
        return origin_of(model_of(self._current().settings, lane))

    def context_window(self, lane: str) -> int:
        """Return the context window of a lane's model, in tokens."""
        return model_of(self._current().settings, lane).context_window

    @asynccontextmanager
    async def ask(
        self, lane: str, instructions: str, material: str, *further: bytes
    ) -> AsyncIterator[Thought]:
        """Yield the model's answer; commit the event with its usage inside the context.

        Raises BudgetSpent, RateLimited or ModelFailed.
        """
        messages = (system_message(instructions), user_message(material), *further)
        # Adds `lane` to the log lines of the call.
        with spans.compaction(lane), structlog.contextvars.bound_contextvars(lane=lane):
            async with AsyncExitStack() as stack:
                yield await self._thought(stack, lane, messages)

    async def _thought(
        self, stack: AsyncExitStack, lane: str, messages: tuple[bytes, ...]
    ) -> Thought:
        now = self._current()
        model = model_of(now.settings, lane)
        key, origin = now.secret(model.secret), origin_of(model)
        wanted = now.settings.features.json_mode
        if wanted and origin not in self._without_json_mode:
            prompt = Prompt(messages, json_only=True)
            try:
                return await stack.enter_async_context(self._model.thought(model, key, prompt))
            except RequestRefused as error:
                log.info("the endpoint takes no response_format", reason=error.message)
        thought = await stack.enter_async_context(self._model.thought(model, key, Prompt(messages)))
        if wanted:
            # Only a success without the format proves that the format was the reason for the refusal.
            self._without_json_mode.add(origin)
        return thought


def user_message(text: str) -> bytes:
    """Render a user message."""
    return orjson.dumps({"role": "user", "content": text})


def correction(answer: str, fault: str) -> tuple[bytes, bytes]:
    """Render the model's own answer and the request to correct it."""
    said = orjson.dumps({"role": "assistant", "content": answer})
    return said, user_message(f"That cannot be used: {fault} Answer again with the whole object.")
