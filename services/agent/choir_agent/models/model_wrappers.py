"""Wrapper of a model that enforces the session's token budget.

The budget is reserved before a call and settled after it.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import structlog

from choir_agent import tracing_spans
from choir_agent.budgets.limits import TokenBudget
from choir_agent.budgets.money import MoneyReserver, PlannedCall
from choir_agent.working_memory.token_estimator import BYTES_PER_TOKEN, TokenEstimator, prompt_size
from choir_common.errors import ChoirError
from choir_common.wire.config import ModelConfig
from choir_common.wire.money import MAX_MODEL_NAME, ModelUsage
from choir_models.call_deadline import longest_call_s
from choir_models.model import NO_LISTENER, ChatModel, Completion, OutputListener, Prompt

log = structlog.get_logger("choir.agent.model")

DEFAULT_COMPLETION_TOKENS = 2_000
"""Tokens reserved for a completion without a configured limit."""
REFUSALS = 5
"""Refused attempts of a model call that a reservation covers, besides the one that is answered."""

MAX_FINISH_REASON = 100


class TokenCounter(Protocol):
    """Offline tokenizer."""

    async def count(self, *texts: str) -> tuple[int, ...] | None:
        """Return the number of tokens of each text, or None if they cannot be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPurpose:
    """What a model call is for."""

    name: str
    """The model's name in `models`."""
    lane: str = ""
    """The lane that thinks; empty for a compaction."""
    job_id: str | None = None
    """The core job that the call belongs to."""


@dataclass(frozen=True, slots=True)
class MeteredCompletion(Completion):
    """A completion with the usage that its event must contain."""

    usage: ModelUsage = field(default_factory=ModelUsage)


class MeteredModel:
    """A model that charges each call to the session's budgets."""

    def __init__(
        self,
        model: ChatModel,
        *,
        budget: TokenBudget,
        money: MoneyReserver,
        estimator: TokenEstimator,
        counter: TokenCounter,
    ) -> None:
        self._model = model
        self._budget = budget
        self._money = money
        self._estimator = estimator
        self._counter = counter
        self._reservations: dict[str, str] = {}
        """The reservation of each lane's running call."""

    @asynccontextmanager
    async def complete(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        purpose: CallPurpose,
        *,
        listener: OutputListener = NO_LISTENER,
    ) -> AsyncIterator[MeteredCompletion]:
        """Yield the model's output; commit the event with its usage inside the context.

        A lane's prompt is estimated from the provider's count of the lane's last prompt. Raises
        BudgetExceeded before any call is made, and all errors of the model.
        """
        lane = purpose.lane
        estimate = self._estimator.tokens(lane, prompt_size(prompt))
        longest = settings.max_completion_tokens or DEFAULT_COMPLETION_TOKENS
        planned = PlannedCall(
            name=purpose.name,
            job_id=purpose.job_id,
            timeout_s=_longest_s(settings.timeout_ms / 1000),
            prompt_tokens=estimate,
            completion_tokens=longest,
        )
        with self._budget.reserve(estimate + longest):
            async with self._money.reserve(planned) as reservation:
                with (
                    self._running(lane, reservation),
                    tracing_spans.chat_span(settings, lane) as span,
                ):
                    completion = await self._call_model(
                        settings, api_key, prompt, lane=lane, listener=listener
                    )
                    if not (completion.prompt_tokens and completion.completion_tokens):
                        completion = await self._with_counts(completion, prompt, lane, estimate)
                    used = (
                        completion.prompt_tokens,
                        completion.completion_tokens,
                        completion.cached_tokens,
                    )
                    tracing_spans.record_usage(span, completion.finish_reason, used)
                _log_call(settings, completion, lane)
            # Outside of the money's context: a call that has ended is never released.
            yield _metered(completion, purpose, reservation)

    def estimate(self, prompt: Prompt, text: str, lane: str) -> tuple[int, int]:
        """Return upper estimates of the tokens of a prompt and of what the model wrote."""
        return self._estimator.tokens(lane, prompt_size(prompt)), len(text) // BYTES_PER_TOKEN

    def reservation_of(self, lane: str) -> str:
        """Return the reservation of money of a lane's running call, or an empty text."""
        return self._reservations.get(lane, "")

    @contextmanager
    def _running(self, lane: str, reservation: str) -> Iterator[None]:
        self._reservations[lane] = reservation
        try:
            yield
        finally:
            self._reservations.pop(lane, None)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def _call_model(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        *,
        lane: str,
        listener: OutputListener,
    ) -> Completion:
        try:
            return await self._model.think(settings, api_key, prompt, listener)
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
            are_counted=False,
            prompt_tokens=completion.prompt_tokens or prompt_tokens,
            completion_tokens=completion.completion_tokens or output_tokens,
        )


def _metered(completion: Completion, purpose: CallPurpose, reservation: str) -> MeteredCompletion:
    values = {item.name: getattr(completion, item.name) for item in fields(Completion)}
    # Providers choose these texts.
    values["model"] = completion.model[:MAX_MODEL_NAME]
    values["finish_reason"] = completion.finish_reason[:MAX_FINISH_REASON]
    usage = ModelUsage(
        name=purpose.name,
        job_id=purpose.job_id,
        cache_write_tokens=completion.cache_write_tokens,
        cache_write_1h_tokens=completion.cache_write_1h_tokens,
        reasoning_tokens=completion.reasoning_tokens,
        audio_input_tokens=completion.audio_input_tokens,
        audio_output_tokens=completion.audio_output_tokens,
        image_tokens=completion.image_tokens,
        billed_usd=completion.billed_usd,
        counted=completion.are_counted,
        reservation=reservation,
    )
    return MeteredCompletion(**values, usage=usage)


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


def _longest_s(silence_s: float) -> float:
    """Return the longest duration of a call with its refused attempts, which are answered at once."""
    return longest_call_s(silence_s) + REFUSALS * silence_s
