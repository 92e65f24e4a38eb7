"""The cost of a harness: money that is reserved for each prompt, and the usage that it reports.

Nobody counts its calls but itself. What it does not report is unknown, and never zero.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from decimal import Decimal

from pydantic import JsonValue, TypeAdapter, ValidationError

from choir_agent.budgets.limits import TOKENS, BudgetExceeded, budget_question, remaining_of
from choir_agent.budgets.money import MoneyReserver, PlannedCall
from choir_agent.harnesses.updates import HarnessUsage, UsageCounter
from choir_agent.log.session_state import JobState, SessionState
from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetExhausted, ModelOutput, UsageRecorded
from choir_common.wire.harness_config import HarnessConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.money import ModelUsage

RESERVED_PROMPT_TOKENS = 200_000
RESERVED_OUTPUT_TOKENS = 20_000
"""Tokens whose price is reserved for a prompt: a rough guess, because it may make any number of calls."""
MAX_TURN_S = 86_400.0
_USAGE = TypeAdapter(HarnessUsage)


class HarnessLimitReached(BudgetExceeded):
    """The harness has reached a limit that ends its job; the user is not asked to extend it."""

    def event(
        self, state: SessionState, budgets: Budgets, *, dm: str, lane: str
    ) -> BudgetExhausted | None:
        """Return None: no budget of the session is exhausted."""
        return None


class HarnessSpending:
    """Money and usage of a job."""

    def __init__(
        self, name: str, config: HarnessConfig, *, job_id: str, money: MoneyReserver
    ) -> None:
        self._name, self._config, self._job_id, self._money = name, config, job_id, money
        self._counter = UsageCounter()
        self._reserved_money = AsyncExitStack()
        self._reservation = ""
        self.is_open = False
        """Whether a prompt was sent whose usage is not recorded."""

    async def reserve(self, job: JobState, state: SessionState, budgets: Budgets) -> None:
        """Reserve money for a prompt; raises BudgetExceeded."""
        if remaining_of(TOKENS, state, budgets) <= 0:
            raise BudgetExceeded(TOKENS, budget_question(TOKENS, state, budgets))
        reserved = await self._reserved_money.enter_async_context(
            self._money.reserve(
                PlannedCall(
                    name=self._config.model or f"harness:{self._name}",
                    job_id=job.turn_id,
                    dm=job.dm,
                    timeout_s=min(budgets.per_job_wall_time_ms / 1000, MAX_TURN_S),
                    prompt_tokens=RESERVED_PROMPT_TOKENS,
                    completion_tokens=RESERVED_OUTPUT_TOKENS,
                    least_completion_tokens=1,
                )
            )
        )
        # The usage names it, so that it is never released.
        reserved.is_settled = True
        self._reservation, self.is_open = reserved.id, True

    def note(self, usage: HarnessUsage, budgets: Budgets) -> None:
        """Take a report; raises BudgetExceeded if its own cost is above the limit for a job."""
        self._counter.note(usage)
        limit, cost = budgets.money.get("usd_per_job"), self._counter.seen.cost_usd
        if limit is not None and cost is not None and cost > limit:
            text = (
                f"The harness {self._name} reports a cost of {cost:.2f} US dollars; a core job may "
                f"cost {limit} (setting budgets.usd_per_job)."
            )
            raise HarnessLimitReached("usd_per_job", text)

    @property
    def recorded(self) -> JsonObject:
        """What the log has of the session's usage, for `resume` in another process."""
        return {
            name: str(value) if isinstance(value, Decimal) else value
            for name, value in asdict(self._counter.recorded).items()
        }

    def resume(self, recorded: JsonValue) -> None:
        """Go on after the usage that an earlier process has recorded; ignore what cannot be read."""
        with suppress(ValidationError):
            self._counter.resume(_USAGE.validate_python(recorded))

    async def settle(self, make_output: Callable[[], ModelOutput]) -> ModelOutput:
        """Return the output of a prompt's end with its usage; it is made when that counts as recorded."""
        recorded = await self._take()
        return make_output().model_copy(
            update={
                name: getattr(recorded, name)
                for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "usage")
            }
        )

    async def settle_failed(self) -> UsageRecorded:
        """Return the usage of a prompt that did not end."""
        return await self._take()

    async def close(self) -> None:
        """Give up what is reserved; control charges it when it expires, unless an event names it."""
        await self._reserved_money.aclose()

    async def _take(self) -> UsageRecorded:
        used = self._counter.take()
        details = ModelUsage(
            name=self._priced_by(used),
            job_id=self._job_id,
            cache_write_tokens=used.cache_write_tokens,
            reasoning_tokens=used.reasoning_tokens,
            billed_usd=used.cost_usd,
            reservation=self._reservation,
        )
        self._reservation, self.is_open = "", False
        await self._reserved_money.aclose()
        self._reserved_money = AsyncExitStack()
        prompt = (used.input_tokens or 0) + used.cached_tokens + used.cache_write_tokens
        return UsageRecorded(
            turn_id=self._job_id,
            purpose="failed_call",
            model=f"harness:{self._name}",
            prompt_tokens=prompt,
            completion_tokens=used.output_tokens + used.reasoning_tokens,
            cached_tokens=used.cached_tokens,
            usage=details,
        )

    def _priced_by(self, used: HarnessUsage) -> str:
        """Return the entry of `models` with the prices; none without tokens, so that the cost is unknown."""
        return "" if used.input_tokens is None else self._config.model or ""
