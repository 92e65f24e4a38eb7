"""Reservation of money at control before every call of a provider, if a budget in money is set.

Control knows the prices and what other lanes and agents have spent. A reservation is settled by the event
that has the call's usage, also that of a failed or cancelled call that the provider may bill. One whose call
failed without being billed is released here. If the agent dies, its reservation is charged by control.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from choir_agent.budgets.limits import BudgetExceeded, BudgetGrant, is_affirmative, is_command
from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_state import SessionState, SessionStateSource
from choir_agent.settings import SettingsSource
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, RateLimited, Unavailable
from choir_common.ids import new_id
from choir_common.wire.config import Budgets
from choir_common.wire.config_parts import MONEY_BUDGETS
from choir_common.wire.events import BudgetExhausted
from choir_common.wire.model import JsonObject
from choir_common.wire.money import (
    RELEASE_TOOL,
    RESERVE_TOOL,
    MoneyBudget,
    MoneyReserved,
    ReleaseMoney,
    ReserveMoney,
    UsageKind,
)
from choir_common.wire.rpc import HostToolRequest
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.budget")

TIMEOUT_S = 10.0
TRANSIENT = frozenset({"unavailable", "outcome_unknown", "deadline_exceeded"})
"""Codes of errors after which control is asked again."""
HOLD_MARGIN_S = 60.0
"""Seconds that a reservation is kept longer than a call may take: its event must become durable."""
MAX_HOLD_S = 86_400.0


class MoneyBudgetExceeded(BudgetExceeded):
    """A budget in money does not allow a call; the message asks the user."""

    def __init__(self, refusal: MoneyReserved, budget: MoneyBudget) -> None:
        super().__init__(budget, refusal.text)
        self._refusal = refusal
        self._budget = budget

    def event(
        self, state: SessionState, budgets: Budgets, *, dm: str, lane: str
    ) -> BudgetExhausted | None:
        """Return the event that records this in a lane, or None if the log already has it."""
        limit, until = self._refusal.limit_micro_usd, self._refusal.until
        recorded_limit = (state.exhausted, state.exhausted_limit, state.exhausted_until)
        is_recorded = recorded_limit == (self._budget, limit, until)
        if is_recorded and state.edge_of(lane) in state.asked_in:
            return None
        return BudgetExhausted(budget=self._budget, limit=limit, dm=dm, until=until)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall:
    """A call of a provider that is about to be made."""

    kind: UsageKind = "chat"
    name: str
    """The entry in `models`, `transcription` or `tts`."""
    job_id: str | None = None
    dm: str = ""
    """The conversation that it works for; empty: the home conversation."""
    timeout_s: float
    """How long the call may take, with its retries."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """The longest completion that the request would allow."""
    least_completion_tokens: int | None = None
    """The shortest completion that is worth the call; None: only the longest one."""
    audio_seconds: float | None = None
    characters: int | None = None


@dataclass(slots=True)
class Reservation:
    """Money that is reserved for one call."""

    id: str = ""
    """Empty: no budget in money is set."""
    completion_tokens: int | None = None
    """The limit that the request must send; None: it needs none."""
    is_settled: bool = False
    """Whether an event has the call's usage, so that the reservation is not released."""


class DurableLog(Protocol):
    """The session's durable log."""

    async def durable(self, rev: int) -> None:
        """Wait until a revision is durable."""
        ...


class MoneyReserver(Protocol):
    """Reservation of money for calls of providers."""

    def reserve(self, call: PlannedCall) -> AbstractAsyncContextManager[Reservation]:
        """Return the context of a call, which yields its reservation."""
        ...


class UnlimitedReservations:
    """No budget: every call is allowed."""

    @asynccontextmanager
    async def reserve(self, call: PlannedCall) -> AsyncIterator[Reservation]:
        """Yield an empty reservation."""
        yield Reservation()


UNLIMITED = UnlimitedReservations()


class MoneyReservations:
    """Client for control's reservations of money."""

    def __init__(
        self,
        *,
        control: ControlClient,
        settings: SettingsSource,
        session: SessionStateSource,
        replication: DurableLog,
    ) -> None:
        self._control = control
        self._settings = settings
        self._session = session
        self._replication = replication

    @asynccontextmanager
    async def reserve(self, call: PlannedCall) -> AsyncIterator[Reservation]:
        """Yield a reservation for the call; an empty one if no budget in money is set.

        Raises MoneyBudgetExceeded if a budget does not allow the call. A ChoirError inside the context
        releases the reservation unless it is settled.
        """
        if not self._settings.current().settings.budgets.money:
            yield Reservation()
            return
        reservation = await self._reserve(call)
        try:
            yield reservation
        except ChoirError:
            # Empty if the limits were removed since: control then reserves nothing.
            if reservation.id and not reservation.is_settled:
                await self._release(reservation.id)
            raise

    async def _reserve(self, call: PlannedCall) -> Reservation:
        # Control knows a grant when its event is durable.
        await self._replication.durable(self._session.state.money_grant_rev)
        request = ReserveMoney(
            kind=call.kind,
            name=call.name,
            job_id=call.job_id,
            prompt_tokens=call.prompt_tokens,
            completion_tokens=call.completion_tokens,
            least_completion_tokens=call.least_completion_tokens,
            audio_seconds=call.audio_seconds,
            characters=call.characters,
            hold_s=min(call.timeout_s + HOLD_MARGIN_S, MAX_HOLD_S),
        )
        answer = await self._ask(call, RESERVE_TOOL, request.model_dump(mode="json"))
        reserved = MoneyReserved.model_validate(answer, strict=False)
        if reserved.budget is not None:
            raise MoneyBudgetExceeded(reserved, reserved.budget)
        return Reservation(reserved.reservation, reserved.completion_tokens)

    async def _ask(self, call: PlannedCall, tool: str, arguments: JsonObject) -> JsonObject:
        """Return the tool's output; ask again until control and its database are available.

        Without control's answer no call is made: the limits are hard.
        """
        request = HostToolRequest(
            tool_name=tool, call_id=new_id("call"), input=arguments, dm=call.dm
        )
        backoff = Backoff()
        while True:
            pause_s = backoff.pause_s()
            try:
                answer = await self._control.use_host_tool(request, TIMEOUT_S)
            except (Unavailable, RateLimited) as error:
                log.info("budget not checked; asking again", model=call.name, error=error.message)
                pause_s = max(pause_s, error.retry_after_s or 0.0)
            else:
                if answer.status == "success":
                    return answer.output
                text = str(answer.output.get("message") or "control gave no reason")
                if answer.output.get("code") not in TRANSIENT:
                    raise ModelFailed(f"its budget could not be checked: {text}", cause="request")
                log.info("budget not checked; asking again", model=call.name, error=text)
            await asyncio.sleep(pause_s)

    async def _release(self, reservation: str) -> None:
        """Give back a reservation; if that fails, control charges it when it expires."""
        request = HostToolRequest(
            tool_name=RELEASE_TOOL,
            call_id=new_id("call"),
            input=ReleaseMoney(reservation=reservation).model_dump(mode="json"),
        )
        try:
            await self._control.use_host_tool(request, TIMEOUT_S)
        except ChoirError as error:
            log.warning("reservation not released", error=error.message)


def parse_money_grant(
    text: str, state: SessionState, now: datetime, *, lane: str
) -> BudgetGrant | None:
    """Return the grant in a user's message if a budget in money is exhausted, or None.

    Only a user who was asked, in the conversation of this edge lane, can grant more. A budget that does not
    stop the edge lane, or whose period is over, is extended by the command only.
    """
    budget = next((name for name in MONEY_BUDGETS if name == state.exhausted), None)
    if budget is None or lane not in state.asked_in or _is_over(state.exhausted_until, now):
        return None
    needs_command = budget in ("usd_per_call", "usd_per_job")
    if not (is_command(text) if needs_command else is_affirmative(text)):
        return None
    # Control grants the configured limit again.
    return BudgetGrant(budget, 0)


def _is_over(until: str, now: datetime) -> bool:
    return bool(until) and datetime.fromisoformat(until) <= now
