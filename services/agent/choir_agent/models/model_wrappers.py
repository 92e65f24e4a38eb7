"""Wrappers of a model: one enforces the session's token budget, one retries calls without a response.

The budget is reserved before a call and settled after it.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

import structlog

from choir_agent import tracing_spans
from choir_agent.budgets.limits import TokenBudget
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.token_estimator import BYTES_PER_TOKEN, TokenEstimator, prompt_size
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_common.wire.config import ModelConfig
from choir_models.model import (
    NO_LISTENER,
    ChatModel,
    Completion,
    NoModelResponse,
    OutputListener,
    Prompt,
)

log = structlog.get_logger("choir.agent.model")

DEFAULT_COMPLETION_TOKENS = 2_000
"""Tokens reserved for a completion without a configured limit."""
RETRIES = 4
"""Number of retries. With a first pause of 1 s the last one is made after about 15 s."""
LONGEST_PAUSE_S = 30.0


class TokenCounter(Protocol):
    """Offline tokenizer."""

    async def count(self, *texts: str) -> tuple[int, ...] | None:
        """Return the number of tokens of each text, or None if they cannot be counted."""


class MeteredModel:
    """A model that charges each call to the session's budget."""

    def __init__(
        self,
        model: ChatModel,
        *,
        budget: TokenBudget,
        estimator: TokenEstimator,
        counter: TokenCounter,
    ) -> None:
        self._model = model
        self._budget = budget
        self._estimator = estimator
        self._counter = counter

    @asynccontextmanager
    async def complete(
        self, settings: ModelConfig, api_key: str | None, prompt: Prompt, lane: str = ""
    ) -> AsyncIterator[Completion]:
        """Yield the model's output; commit the event with its usage inside the context.

        A lane's prompt is estimated from the provider's count of the lane's last prompt. Raises
        TokenBudgetExceeded before any call is made, and all errors of the model.
        """
        estimate = self._estimator.tokens(lane, prompt_size(prompt))
        with self._budget.reserve(
            estimate + (settings.max_completion_tokens or DEFAULT_COMPLETION_TOKENS)
        ):
            with tracing_spans.chat_span(settings, lane) as span:
                completion = await self._call_model(settings, api_key, prompt, lane)
                if not (completion.prompt_tokens and completion.completion_tokens):
                    completion = await self._with_counts(completion, prompt, lane, estimate)
                used = (
                    completion.prompt_tokens,
                    completion.completion_tokens,
                    completion.cached_tokens,
                )
                tracing_spans.record_usage(span, completion.finish_reason, used)
            _log_call(settings, completion, lane)
            yield completion

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def _call_model(
        self, settings: ModelConfig, api_key: str | None, prompt: Prompt, lane: str
    ) -> Completion:
        try:
            return await self._model.think(settings, api_key, prompt)
        except ChoirError as error:
            log.warning("model call failed", **_about(settings, lane), code=error.code,
                        error=error.message)  # fmt: skip
            raise

    async def _with_counts(
        self, completion: Completion, prompt: Prompt, lane: str, estimate: int
    ) -> Completion:
        """Count what the provider did not count: otherwise such usage would be unlimited."""
        size, output_text = prompt_size(prompt), _output_text(completion)
        counts: tuple[int, ...] | None = None
        if self._estimator.needs_count(lane, size):
            prompt_text = b"".join((*prompt.messages, prompt.tools)).decode("utf-8", "replace")
            counts = await self._counter.count(prompt_text, output_text)
        if counts is not None:
            self._estimator.record_tokenized(lane, size)
        prompt_tokens, output_tokens = counts or (estimate, len(output_text) // BYTES_PER_TOKEN)
        return replace(
            completion,
            prompt_tokens=completion.prompt_tokens or prompt_tokens,
            completion_tokens=completion.completion_tokens or output_tokens,
        )


def _about(settings: ModelConfig, lane: str) -> dict[str, str]:
    """Return log fields for a call: its lane, or the purpose `compaction`."""
    purpose = {"lane": lane, "purpose": "think"} if lane else {"purpose": "compaction"}
    return {"model": settings.model, **purpose}


def _log_call(settings: ModelConfig, completion: Completion, lane: str) -> None:
    log.info(
        "model call ended",
        **_about(settings, lane),
        finish=completion.finish_reason[:40],
        calls=len(completion.calls),
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        cached_tokens=completion.cached_tokens,
        duration_ms=completion.duration_ms,
    )


def _output_text(completion: Completion) -> str:
    return completion.text + "".join(call.name + call.arguments for call in completion.calls)


class RetryingModel:
    """A model that retries calls without a response, with growing pauses.

    Refused and reset connections and the statuses 502, 503 and 529 usually end within seconds. A call that
    timed out or got a response is not repeated, because it may have been billed. Rate limits are handled in
    `ModelCaller`, which notifies the user.
    """

    def __init__(self, model: ChatModel, settings: SettingsSource) -> None:
        """Wrap a model; the first pause is `rate_limit_retry_ms`, and each pause doubles the one before."""
        self._model = model
        self._settings = settings

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output.

        Raises NoModelResponse if the last retry got no response either, and all other errors of the model at
        once.
        """
        now = self._settings.current().settings
        backoff = Backoff(now.rate_limit_retry_ms / 1000, max_s=math.inf)
        retries = RETRIES if now.features.model_retries else 0
        for retry in range(1, retries + 1):
            try:
                return await self._model.think(settings, api_key, prompt, listener)
            except NoModelResponse as error:
                wait_s = max(backoff.pause_s(), error.retry_after_s or 0.0)
                if wait_s > LONGEST_PAUSE_S:
                    raise
                log.info("model call got no response; retrying", model=settings.model,
                         retry=retry, wait_s=round(wait_s, 3), error=error.message)  # fmt: skip
            await asyncio.sleep(wait_s)
        return await self._model.think(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
