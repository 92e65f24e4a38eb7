"""Model calls of compaction, which return one JSON object, and the backoff for models that fail at it.

Each failed attempt costs tokens. After a few in a row the model is skipped for a growing number of
compactions, which select lines instead.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import orjson
import structlog

from choir_agent import tracing_spans
from choir_agent.log.session_state import SessionStateSource
from choir_agent.models.lane_models import model_for_lane, models_for_lane
from choir_agent.models.model_wrappers import CallPurpose, MeteredCompletion, MeteredModel
from choir_agent.prompt.event_messages import system_message
from choir_agent.settings import SettingsSource
from choir_models.fallback import CoolDowns, NamedModel, call_first
from choir_models.model import ModelRequestRejected, Prompt, model_id

log = structlog.get_logger("choir.agent.compaction")

MAX_FAILURES = 3
"""Consecutive failures after which events are folded without the model."""
MAX_SKIPS = 32
ANSWER_SHARE = 4
"""The part (1/n) of a small context window that a prompt leaves to the answer and the next tool results."""


class CompactionModel:
    """Client for the model calls of compaction, within the session's budget."""

    def __init__(
        self,
        *,
        model: MeteredModel,
        settings: SettingsSource,
        session: SessionStateSource,
        cool_downs: CoolDowns,
    ) -> None:
        self._model = model
        self._cool_downs = cool_downs
        self._session = session
        self._settings = settings
        self._without_json_mode: set[str] = set()

    def origin(self, lane: str) -> str:
        """Return the identifier of a lane's model."""
        return model_id(model_for_lane(self._settings.current().settings, lane))

    def context_window(self, lane: str) -> int:
        """Return the context window of a lane's model, in tokens."""
        return model_for_lane(self._settings.current().settings, lane).window_tokens

    def prompt_tokens(self, lane: str) -> int:
        """Return the tokens that a prompt may take; in a small window the answer needs a share of its own."""
        model = model_for_lane(self._settings.current().settings, lane)
        reserve = model.window_tokens // ANSWER_SHARE if model.has_small_context else 0
        return model.window_tokens - reserve

    @asynccontextmanager
    async def ask(
        self, lane: str, instructions: str, material: str, *further: bytes
    ) -> AsyncIterator[MeteredCompletion]:
        """Yield the answer of the lane's model, or of one that it falls back to.

        Commit the event with its usage inside the context. Raises BudgetExceeded, RateLimited or ModelFailed.
        """
        messages = (system_message(instructions), user_message(material), *further)
        # Adds `lane` to the log lines of the call.
        with (
            tracing_spans.compaction_span(lane),
            structlog.contextvars.bound_contextvars(lane=lane),
        ):
            async with AsyncExitStack() as stack:
                models = models_for_lane(self._settings.current().settings, lane)
                complete = partial(self._complete, stack, lane, messages)
                yield await call_first(models, self._cool_downs, complete)

    async def _complete(
        self, stack: AsyncExitStack, lane: str, messages: tuple[bytes, ...], choice: NamedModel
    ) -> MeteredCompletion:
        now, model = self._settings.current(), choice.config
        key, origin = now.secret(model.secret), model_id(model)
        job = next((job for job in self._session.state.jobs if job.lane == lane), None)
        job_id = job.turn_id if job else None
        purpose = CallPurpose(name=choice.name, event_lane=lane, turn_id=job_id, job_id=job_id)
        json_mode = now.settings.features.json_mode
        if json_mode and origin not in self._without_json_mode:
            prompt = Prompt(messages, json_only=True)
            try:
                return await stack.enter_async_context(
                    self._model.complete(model, key, prompt, purpose)
                )
            except ModelRequestRejected as error:
                log.info("the endpoint rejects response_format", error=error.message)
        completion = await stack.enter_async_context(
            self._model.complete(model, key, Prompt(messages), purpose)
        )
        if json_mode:
            # Only a success without the format proves that the format was the reason for the refusal.
            self._without_json_mode.add(origin)
        return completion


def user_message(text: str) -> bytes:
    """Render a user message."""
    return orjson.dumps({"role": "user", "content": text})


def correction(answer: str, fault: str) -> tuple[bytes, bytes]:
    """Render the model's own answer and the request to correct it."""
    own = orjson.dumps({"role": "assistant", "content": answer})
    return own, user_message(
        f"That answer is invalid: {fault} Answer again with the complete object."
    )


@dataclass(slots=True)
class ModelBackoff:
    """Backoff state of one model."""

    failures: int = 0
    """Consecutive failures."""
    skips_left: int = 0
    """Remaining compactions to make without the model."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the last failure reached the limit, so that lines are selected."""
        return self.failures >= MAX_FAILURES

    def growth_factor(self) -> int:
        """Return the factor on the growth that a window must reach before the next attempt."""
        return int(2 ** max(0, self.failures - 1))

    def record_success(self) -> None:
        """Record a success."""
        self.failures = self.skips_left = 0

    def record_failure(self) -> None:
        """Record a failure."""
        self.failures += 1
        if self.is_exhausted:
            self.skips_left = min(2 ** (self.failures - MAX_FAILURES + 1), MAX_SKIPS)

    def consume_skip(self) -> bool:
        """Return whether this compaction skips the model, and count it."""
        if not self.skips_left:
            return False
        self.skips_left -= 1
        return True
