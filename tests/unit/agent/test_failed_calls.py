"""A call without a usable output is charged if its provider may bill it, and released otherwise."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from choir_agent.budgets.limits import TokenBudget
from choir_agent.budgets.money import PlannedCall, Reservation
from choir_agent.models.model_wrappers import CallPurpose, MeteredModel
from choir_agent.working_memory.token_estimator import TokenEstimator
from choir_common.errors import ChoirError, RateLimited
from choir_common.wire.config import Budgets, ModelConfig
from choir_common.wire.events import UsageRecorded
from choir_models.call_meter import TOKENS_PER_SECOND
from choir_models.model import (
    NO_LISTENER,
    UNHEARD,
    Completion,
    ModelFailed,
    NoModelResponse,
    OutputListener,
    Prompt,
)
from tests.support.agent_fakes import (
    EmptySession,
    NoTokenCounter,
    RecordingCommitter,
    settings_with,
)

MODEL = ModelConfig(model="m", endpoint="http://x")
PROMPT = Prompt((b'{"role":"user","content":"' + b"x" * 974 + b'"}',))
PURPOSE = CallPurpose(name="strong", lane="core:x", event_lane="core:x", turn_id="j", job_id="j")
FILTERED = Completion("", (), "m-2", "content_filter", 700, 30, 1.0, cached_tokens=5)


class SetClock:
    """A clock that a test sets."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 24, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class FailingModel:
    """Writes, and then fails, or waits without an end."""

    def __init__(
        self, error: ChoirError | None, *, text: str = "", hidden: int = 0, clock: SetClock
    ) -> None:
        self._error = error
        self._text, self._hidden = text, hidden
        self._clock = clock
        self.calls: list[tuple[ModelConfig, Prompt]] = []
        self.waits = asyncio.Event()

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        self.calls.append((settings, prompt))
        if self._text:
            listener.add_text(self._text)
        if self._hidden:
            listener.add_hidden(self._hidden)
        self._clock.seconds += 3
        if self._error is not None:
            raise self._error
        self.waits.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Nothing to close."""


class OneReservation:
    """Money that is reserved for 900 tokens, and what became of it."""

    def __init__(self) -> None:
        self.planned: list[PlannedCall] = []
        self.reservation = Reservation("ses:call", 900)

    @asynccontextmanager
    async def reserve(self, call: PlannedCall) -> AsyncIterator[Reservation]:
        self.planned.append(call)
        yield self.reservation


class Call:
    """One call of a model that gives no usable output."""

    def __init__(self, error: ChoirError | None, *, text: str = "", hidden: int = 0) -> None:
        clock = SetClock()
        self.model = FailingModel(error, text=text, hidden=hidden, clock=clock)
        self.money, self.log = OneReservation(), RecordingCommitter()
        self.metered = MeteredModel(
            self.model,
            budget=TokenBudget(EmptySession(), settings_with(Budgets())),
            money=self.money,
            estimator=TokenEstimator(),
            counter=NoTokenCounter(),
            committer=self.log,
            clock=clock,
        )

    async def run(self) -> None:
        """Make the call."""
        async with self.metered.complete(MODEL, None, PROMPT, PURPOSE, listener=UNHEARD):
            raise AssertionError("the call gave an output")

    async def fail(self) -> None:
        """Make the call, which fails."""
        with pytest.raises(ChoirError):
            await self.run()

    async def cancel(self, *, interrupts: bool = False) -> None:
        """Cancel the call after its output began; with `interrupts`, the caller records it."""
        task = asyncio.create_task(self.run())
        await self.model.waits.wait()
        if interrupts:
            self.metered.take_interrupted(PURPOSE.lane)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @property
    def recorded(self) -> UsageRecorded:
        """The only event, which settles the reservation."""
        ((lane, event),) = self.log.commits
        assert isinstance(event, UsageRecorded) and event.usage is not None
        assert (lane, event.turn_id, event.purpose) == ("core:x", "j", "failed_call")
        assert (event.usage.name, event.usage.job_id) == ("strong", "j")
        assert event.usage.reservation == "ses:call" and self.money.reservation.is_settled
        return event


CUT = NoModelResponse("cut", cause="connection")


@pytest.mark.parametrize("error", [CUT, RateLimited("slow down"), None])
async def test_a_stream_that_is_cut_or_cancelled_is_charged_for_what_was_written(
    error: ChoirError | None,
) -> None:
    call = Call(error, text="a" * 100, hidden=60)
    await (call.fail() if error else call.cancel())
    assert call.recorded.usage is not None and not call.recorded.usage.counted
    assert call.recorded.prompt_tokens > 300
    assert call.recorded.completion_tokens == 80


async def test_output_that_nobody_saw_is_estimated_by_its_time_up_to_the_limit() -> None:
    call = Call(None)
    await call.cancel()
    assert call.recorded.completion_tokens == 3 * TOKENS_PER_SECOND
    silent = Call(ModelFailed("silent", cause="timeout", spent=FILTERED_UNCOUNTED))
    silent.money.reservation.completion_tokens = 100
    await silent.fail()
    assert silent.recorded.completion_tokens == 100
    assert silent.recorded.model == "m"


FILTERED_UNCOUNTED = Completion("", (), "", "error", 0, 0, 0.0, are_counted=False)


async def test_an_unusable_answer_is_charged_with_the_providers_own_counts() -> None:
    call = Call(ModelFailed("filtered", cause="filter", spent=FILTERED))
    await call.fail()
    event = call.recorded
    assert event.usage is not None and event.usage.counted
    assert (event.model, event.prompt_tokens, event.completion_tokens) == ("m-2", 700, 30)
    assert event.cached_tokens == 5


@pytest.mark.parametrize(
    "error",
    [
        NoModelResponse("connection refused", cause="connection"),
        NoModelResponse("the provider answered 500"),
        ModelFailed("401", cause="key"),
        ModelFailed("404", cause="not_found"),
        RateLimited("429"),
    ],
)
async def test_a_call_that_is_refused_before_its_output_is_free(error: ChoirError) -> None:
    call = Call(error)
    await call.fail()
    assert call.log.commits == [] and not call.money.reservation.is_settled


async def test_a_call_that_its_caller_records_is_recorded_once() -> None:
    call = Call(None, text="shown")
    await call.cancel(interrupts=True)
    assert call.log.commits == []


async def test_the_request_states_the_limit_that_money_was_reserved_for() -> None:
    call = Call(CUT)
    await call.fail()
    ((settings, prompt),) = call.model.calls
    assert settings.max_completion_tokens == 900 and prompt.is_limited
    (planned,) = call.money.planned
    assert (planned.completion_tokens, planned.least_completion_tokens) == (32_000, 2_000)
    free = Call(CUT)
    free.money.reservation = Reservation()
    await free.fail()
    ((settings, prompt),) = free.model.calls
    assert settings == MODEL and not prompt.is_limited
