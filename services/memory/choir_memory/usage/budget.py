"""Reservation of money at control before a call of memory's language model.

Control answers at once if no budget in money is set. Without its answer no call is made.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from choir_common.clients.control import UsageClient
from choir_common.errors import ChoirError, Unavailable
from choir_common.ids import new_id
from choir_common.wire.money import ReleaseForMemory, ReserveForMemory, ReserveMoney
from choir_memory.usage.reporter import current_agent
from choir_models.fallback import NamedModel
from choir_models.model import Prompt

log = structlog.get_logger("choir.memory.usage")

COMPLETION_TOKENS = 4_000
"""Tokens reserved for a completion without a configured limit."""
BYTES_PER_TOKEN = 3
HOLD_MARGIN_S = 60.0
"""Seconds that a reservation is kept longer than a call may take: its report must be stored."""


class ModelBudget:
    """The budgets in money, as far as they hold for calls of memory's model."""

    def __init__(self, client: UsageClient) -> None:
        self._client = client

    @asynccontextmanager
    async def reserve(self, model: NamedModel, prompt: Prompt) -> AsyncIterator[str]:
        """Yield the id of a reservation for the call, or an empty text if no budget is set.

        Raises Unavailable if a budget does not allow the call, or without control. A ChoirError inside the
        context releases the reservation. A cancelled call keeps it: the provider may have billed the call.
        """
        settings = model.config
        call = ReserveMoney(
            kind="memory",
            name=model.name,
            prompt_tokens=sum(map(len, prompt.messages)) // BYTES_PER_TOKEN + 1,
            completion_tokens=settings.max_completion_tokens or COMPLETION_TOKENS,
            hold_s=settings.timeout_ms / 1000 + HOLD_MARGIN_S,
        )
        request = ReserveForMemory(reservation=new_id("use"), agent_id=current_agent(), call=call)
        reserved = await self._client.reserve_money(request)
        if reserved.budget is not None:
            raise Unavailable(reserved.text)
        try:
            yield reserved.reservation
        except ChoirError:
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
