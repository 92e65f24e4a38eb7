"""Wrapper of a model that enforces the session's budgets.

They are reserved before a call and settled after it, also for a failed or cancelled call that the provider
may bill.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import structlog

from choir_agent import tracing_spans
from choir_agent.budgets.limits import TokenBudget
from choir_agent.budgets.money import MoneyReserver, PlannedCall, Reservation
from choir_agent.log.session_state import SessionState
from choir_agent.working_memory.token_estimator import BYTES_PER_TOKEN, TokenEstimator, prompt_size
from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.lanes import EDGE_LANE
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import EventPayload, UsageRecorded
from choir_common.wire.money import MAX_MODEL_NAME, ModelUsage
from choir_models.call_deadline import longest_call_s
from choir_models.call_meter import CallMeter, usage_details
from choir_models.completion_limits import (
    configured_limit,
    least_limit,
    request_limit,
    with_limit,
)
from choir_models.model import (
    NO_LISTENER,
    UNKNOWN_OUTPUT,
    ChatModel,
    Completion,
    OutputListener,
    Prompt,
)

log = structlog.get_logger("choir.agent.model")

DEFAULT_COMPLETION_TOKENS = 2_000
"""Tokens that the session's token budget reserves for a completion without a configured limit."""
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
    event_lane: str = EDGE_LANE
    """The lane of the event that records the call."""
    turn_id: str | None = None
    """The turn or core job that the call belongs to."""
    job_id: str | None = None
    """The core job that the call belongs to."""
    dm: str = ""
    """The conversation that it works for; empty: the home conversation."""


@dataclass(frozen=True, slots=True)
class MeteredCompletion(Completion):
    """A completion with the usage that its event must contain."""

    usage: ModelUsage = field(default_factory=ModelUsage)


class UsageCommitter(Protocol):
    """The part of the arbiter that records the usage of failed calls."""

    @property
    def state(self) -> SessionState: ...

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int: ...


@dataclass(slots=True, kw_only=True)
class _MeteredCall:
    """A call of a model that runs now."""

    settings: ModelConfig
    """With the limit that is sent."""
    purpose: CallPurpose
    prompt_tokens: int
    """Estimate."""
    reservation: Reservation
    meter: CallMeter
    is_recorded: bool = False
    """Whether an event has its usage."""

    def estimate(self, spent: Completion) -> MeteredCompletion:
        """Return an unusable output with estimates of the counts that are missing."""
        limit = request_limit(self.settings)
        filled = self.meter.fill_in(spent, prompt_tokens=self.prompt_tokens, limit=limit)
        filled = replace(filled, model=filled.model or self.settings.model)
        return _metered(filled, self.purpose, self.reservation.id)


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
        committer: UsageCommitter,
        clock: Clock,
    ) -> None:
        self._model = model
        self._budget = budget
        self._money = money
        self._estimator = estimator
        self._counter = counter
        self._committer = committer
        self._clock = clock
        self._running: dict[str, _MeteredCall] = {}
        """The running call of each lane."""

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

        A lane's prompt is estimated from the provider's count of the lane's last prompt. A call that fails or
        is cancelled although the provider may bill it is recorded here. Raises BudgetExceeded before any call
        is made, and all errors of the model.
        """
        lane = purpose.lane
        estimate = self._estimator.tokens(lane, prompt_size(prompt))
        planned = _plan(settings, purpose, estimate)
        with self._budget.reserve(
            estimate + (configured_limit(settings) or DEFAULT_COMPLETION_TOKENS)
        ):
            async with self._money.reserve(planned) as reservation:
                if reservation.completion_tokens is not None:
                    settings = with_limit(settings, reservation.completion_tokens)
                    prompt = replace(prompt, is_limited=True)
                call = _MeteredCall(
                    settings=settings,
                    purpose=purpose,
                    prompt_tokens=estimate,
                    reservation=reservation,
                    meter=CallMeter(listener, self._clock),
                )
                with self._tracked(call), tracing_spans.chat_span(settings, lane) as span:
                    completion = await self._call_model(call, api_key, prompt)
                    used = (
                        completion.prompt_tokens,
                        completion.completion_tokens,
                        completion.cached_tokens,
                    )
                    tracing_spans.record_usage(span, completion.finish_reason, used)
                _log_call(settings, completion, lane)
            # Outside of the money's context: a call that has ended is never released.
            yield _metered(completion, purpose, reservation.id)

    def take_interrupted(self, lane: str) -> MeteredCompletion | None:
        """Return the estimated usage of a lane's running call, which the caller records and cancels.

        Returns None if no request runs: the call may still wait for its reservation of money.
        """
        call = self._running.get(lane)
        if call is None:
            return None
        call.is_recorded = True
        return call.estimate(UNKNOWN_OUTPUT)

    @contextmanager
    def _tracked(self, call: _MeteredCall) -> Iterator[None]:
        self._running[call.purpose.lane] = call
        try:
            yield
        finally:
            self._running.pop(call.purpose.lane, None)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def _call_model(
        self, call: _MeteredCall, api_key: str | None, prompt: Prompt
    ) -> Completion:
        spent = UNKNOWN_OUTPUT
        try:
            spent = await self._model.think(call.settings, api_key, prompt, call.meter.listener)
            if spent.prompt_tokens and spent.completion_tokens:
                return spent
            return await self._with_counts(spent, prompt, call.purpose.lane, call.prompt_tokens)
        except ChoirError as error:
            log.warning("model call failed", **_about(call.settings, call.purpose.lane),
                        code=error.code, error=error.message)  # fmt: skip
            unusable = call.meter.spent_by(error)
            if unusable is not None:
                self._record_unusable(call, unusable)
            raise
        except asyncio.CancelledError:
            # The provider had the request, unless it was cancelled in the first moment.
            self._record_unusable(call, spent)
            raise

    def _record_unusable(self, call: _MeteredCall, spent: Completion) -> None:
        """Record the usage of a call without a usable output, which settles its reservation."""
        call.reservation.is_settled = True
        # Without an event, control charges the reservation when the session's epoch ends.
        if call.is_recorded or self._committer.state.stopped:
            return
        completion = call.estimate(spent)
        event = UsageRecorded(
            turn_id=call.purpose.turn_id,
            purpose="failed_call",
            model=completion.model,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            usage=completion.usage,
        )
        self._committer.commit(call.purpose.event_lane, event)
        call.is_recorded = True

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


def _plan(settings: ModelConfig, purpose: CallPurpose, prompt_tokens: int) -> PlannedCall:
    """Return what the call may use at most, as far as money is concerned."""
    return PlannedCall(
        name=purpose.name,
        job_id=purpose.job_id,
        dm=purpose.dm,
        timeout_s=_longest_s(settings.timeout_ms / 1000),
        prompt_tokens=prompt_tokens,
        completion_tokens=request_limit(settings, prompt_tokens),
        least_completion_tokens=least_limit(settings),
    )


def _metered(completion: Completion, purpose: CallPurpose, reservation: str) -> MeteredCompletion:
    values = {item.name: getattr(completion, item.name) for item in fields(Completion)}
    # Providers choose these texts.
    values["model"] = completion.model[:MAX_MODEL_NAME]
    values["finish_reason"] = completion.finish_reason[:MAX_FINISH_REASON]
    usage = usage_details(completion, purpose.name, reservation, purpose.job_id)
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
