"""Reservation of money at control before a call of memory's language model.

Control answers at once if no budget in money is set. Without its answer no call is made.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import structlog

from choir_common.clients.control import UsageClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError, Unavailable
from choir_common.ids import new_id
from choir_common.wire.config import ModelConfig
from choir_common.wire.money import ReleaseForMemory, ReserveForMemory, ReserveMoney
from choir_memory.usage.reporter import current_agent
from choir_models.call_meter import CallMeter
from choir_models.completion_limits import least_limit, request_limit, with_limit
from choir_models.fallback import NamedModel
from choir_models.model import NO_LISTENER, Completion, Prompt

log = structlog.get_logger("choir.memory.usage")

LEAST_COMPLETION_TOKENS = 4_000
"""Tokens of the shortest completion that is worth a call: one that is cut off cannot be used."""
BYTES_PER_TOKEN = 2
"""A lower bound, as for the agents' prompts."""
HOLD_MARGIN_S = 60.0
"""Seconds that a reservation is kept longer than a call may take: its report must be stored."""


@dataclass(slots=True, kw_only=True)
class ReservedCall:
    """A call of memory's model, with the money that is reserved for it."""

    settings: ModelConfig
    """With the limit of the output that the money pays for."""
    prompt: Prompt
    prompt_tokens: int
    """Estimate."""
    reservation: str
    """Empty: no budget in money is set."""
    meter: CallMeter
    is_settled: bool = False
    """Whether a report has the call's usage, so that the reservation is not released."""

    def settle(self, spent: Completion) -> Completion:
        """Return the call's output with estimates of missing counts; its report settles the reservation."""
        self.is_settled = True
        limit = request_limit(self.settings)
        filled = self.meter.fill_in(spent, prompt_tokens=self.prompt_tokens, limit=limit)
        return replace(filled, model=filled.model or self.settings.model)


class ModelBudget:
    """The budgets in money, as far as they hold for calls of memory's model."""

    def __init__(self, client: UsageClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    @asynccontextmanager
    async def reserve(self, model: NamedModel, prompt: Prompt) -> AsyncIterator[ReservedCall]:
        """Yield the call with its reservation, if a budget is set.

        Raises Unavailable if a budget does not allow the call, or without control. A ChoirError inside the
        context releases the reservation unless the call is settled.
        """
        settings = model.config
        tokens = sum(map(len, prompt.messages)) // BYTES_PER_TOKEN + 1
        call = ReserveMoney(
            kind="memory",
            name=model.name,
            prompt_tokens=tokens,
            completion_tokens=request_limit(settings, tokens),
            least_completion_tokens=least_limit(settings, LEAST_COMPLETION_TOKENS),
            hold_s=settings.timeout_ms / 1000 + HOLD_MARGIN_S,
        )
        request = ReserveForMemory(reservation=new_id("use"), agent_id=current_agent(), call=call)
        reserved = await self._client.reserve_money(request)
        if reserved.budget is not None:
            raise Unavailable(reserved.text)
        if reserved.completion_tokens is not None:
            settings = with_limit(settings, reserved.completion_tokens)
            prompt = replace(prompt, is_limited=True)
        running = ReservedCall(
            settings=settings,
            prompt=prompt,
            prompt_tokens=tokens,
            reservation=reserved.reservation,
            meter=CallMeter(NO_LISTENER, self._clock),
        )
        try:
            yield running
        except ChoirError:
            if not running.is_settled:
                await self._release(reserved.reservation)
            raise

    async def _release(self, reservation: str) -> None:
        """Give back a reservation; if that fails, control charges it when it expires."""
        if not reservation:
            return
        try:
            await self._client.release_money(ReleaseForMemory(reservation=reservation))
        except ChoirError as error:
            log.warning("reservation not released", error=error.message)
