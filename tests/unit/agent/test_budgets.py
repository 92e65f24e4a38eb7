"""Budgets are hard stops: reserved before, settled after, and only the user grants more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import pytest

from choir_agent.budgets.limits import (
    CALLS,
    COMMAND,
    TOKENS,
    BudgetExceeded,
    TokenBudget,
    budget_question,
    core_job_refusal,
    exhausted_budget,
    exhausted_event,
    limit_of,
    parse_grant,
    remaining_of,
    tool_call_refusal,
)
from choir_agent.budgets.money import PlannedCall, Reservation
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import BudgetUsage, SessionState
from choir_agent.models.model_wrappers import (
    DEFAULT_COMPLETION_TOKENS,
    CallPurpose,
    MeteredModel,
)
from choir_agent.working_memory.token_estimator import TokenEstimator
from choir_common.clock import SystemClock
from choir_common.wire.config import Budgets, ModelConfig
from choir_common.wire.events import EventPayload, ModelOutput
from choir_common.wire.money import MAX_MODEL_NAME, ModelUsage
from choir_models.model import NO_LISTENER, Completion, ModelFailed, OutputListener, Prompt
from tests.support.agent_fakes import (
    NoMoneyBudget,
    NoTokenCounter,
    RecordingCommitter,
    settings_with,
)

BUDGETS = Budgets(total_session_tokens=10_000, max_tool_calls_per_session=3, max_core_jobs=0)
MODEL = ModelConfig(model="m", endpoint="http://x", max_completion_tokens=500)
PROMPT = Prompt((b'{"role":"user","content":"' + b"x" * 974 + b'"}',))


class Session:
    """A session's state, which follows what is committed."""

    def __init__(self) -> None:
        self.state = SessionState()

    def commit(self, payload: EventPayload) -> None:
        event = CommittedEvent(
            self.state.rev + 1, "", "edge", "2026-01-01T00:00:00.000000Z", payload
        )
        self.state = apply_event(self.state, event)

    def spend(self, thought: Completion) -> None:
        self.commit(
            ModelOutput(
                turn_id="t",
                text=thought.text,
                model=thought.model,
                finish_reason=thought.finish_reason,
                prompt_tokens=thought.prompt_tokens,
                completion_tokens=thought.completion_tokens,
            )
        )


class SlowModel:
    """Answers when allowed to; each call costs what it says."""

    def __init__(self, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        self.usage = (prompt_tokens, completion_tokens)
        self.calls = 0
        self.may_answer = asyncio.Event()
        self.fails = False
        self.name = "m"

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        self.calls += 1
        await self.may_answer.wait()
        if self.fails:
            raise ModelFailed("no")
        return Completion("six letters", (), self.name, "stop", *self.usage, 1.0)

    async def close(self) -> None:
        """Nothing to close."""


def test_a_reservation_beyond_what_is_left_is_refused_and_says_how_to_go_on() -> None:
    session = Session()
    purse = TokenBudget(session, settings_with(BUDGETS))
    with purse.reserve(6_000):
        with pytest.raises(BudgetExceeded) as refused, purse.reserve(4_001):
            pass
        with purse.reserve(4_000):
            assert purse.reserved == 10_000
    assert purse.reserved == 0
    for word in (COMMAND, "10,000", "total_session_tokens"):
        assert word in refused.value.message


async def test_many_calls_at_once_cannot_overshoot_together() -> None:
    session, model = Session(), SlowModel(prompt_tokens=500, completion_tokens=500)
    purse = TokenBudget(session, settings_with(BUDGETS))
    metered = MeteredModel(
        model,
        budget=purse,
        money=NoMoneyBudget(),
        estimator=TokenEstimator(),
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )

    async def call() -> bool:
        try:
            async with metered.complete(MODEL, None, PROMPT, CallPurpose(name="m")) as thought:
                session.spend(thought)
                return True
        except BudgetExceeded:
            return False

    calls = [asyncio.create_task(call()) for _ in range(40)]
    await asyncio.sleep(0)
    model.may_answer.set()
    worked = await asyncio.gather(*calls)
    # each reserves about 1,000: a thousand bytes of prompt, and its longest answer
    assert model.calls == sum(worked) == 9
    assert session.state.spent.tokens == 9_000
    assert purse.reserved == 0


async def test_what_is_reserved_is_given_back_on_failure_and_cancellation() -> None:
    session, model = Session(), SlowModel()
    purse = TokenBudget(session, settings_with(BUDGETS))
    metered = MeteredModel(
        model,
        budget=purse,
        money=NoMoneyBudget(),
        estimator=TokenEstimator(),
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )

    async def call() -> None:
        async with metered.complete(MODEL, None, PROMPT, CallPurpose(name="m")) as thought:
            session.spend(thought)

    waiting = asyncio.create_task(call())
    await asyncio.sleep(0)
    assert purse.reserved > 900
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert purse.reserved == 0
    model.fails = True
    model.may_answer.set()
    with pytest.raises(ModelFailed):
        await call()
    assert (purse.reserved, session.state.spent.tokens) == (0, 0)


async def test_a_provider_that_sends_no_usage_is_counted_by_estimate() -> None:
    session, model = Session(), SlowModel()
    model.may_answer.set()
    metered = MeteredModel(
        model,
        budget=TokenBudget(session, settings_with(BUDGETS)),
        money=NoMoneyBudget(),
        estimator=TokenEstimator(),
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )
    async with metered.complete(MODEL, None, PROMPT, CallPurpose(name="m")) as thought:
        session.spend(thought)
    assert thought.prompt_tokens > 300
    assert thought.completion_tokens > 0
    unlimited = MODEL.model_copy(update={"max_completion_tokens": None})
    assert DEFAULT_COMPLETION_TOKENS < 10_000
    async with metered.complete(unlimited, None, PROMPT, CallPurpose(name="m")):
        pass


async def test_the_name_that_a_provider_gives_its_model_is_limited() -> None:
    model = SlowModel(prompt_tokens=1, completion_tokens=1)
    model.may_answer.set()
    model.name = "m" * 1_000_000
    metered = MeteredModel(
        model,
        budget=TokenBudget(Session(), settings_with(BUDGETS)),
        money=NoMoneyBudget(),
        estimator=TokenEstimator(),
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )
    async with metered.complete(MODEL, None, PROMPT, CallPurpose(name="m")) as completion:
        assert completion.model == "m" * MAX_MODEL_NAME


async def test_a_lane_reserves_by_what_the_provider_counted_for_its_last_prompt() -> None:
    session, model, meter = Session(), SlowModel(), TokenEstimator()
    purse = TokenBudget(session, settings_with(BUDGETS))
    metered = MeteredModel(
        model,
        budget=purse,
        money=NoMoneyBudget(),
        estimator=meter,
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )
    meter.record_prompt_size("edge", 1_000)
    meter.record_token_count("edge", 100)

    async def call() -> None:
        async with metered.complete(MODEL, None, PROMPT, CallPurpose(name="m", lane="edge")):
            pass

    waiting = asyncio.create_task(call())
    await asyncio.sleep(0)
    assert 500 + 100 < purse.reserved < 500 + 150
    model.may_answer.set()
    await waiting


def test_limits_follow_what_was_spent_and_granted() -> None:
    state = SessionState(spent=BudgetUsage(tokens=12_000, tool_calls=3, granted_tokens=10_000))
    assert limit_of(TOKENS, state, BUDGETS) == 20_000
    assert remaining_of(TOKENS, state, BUDGETS) == 8_000
    fault = tool_call_refusal(state, BUDGETS)
    assert fault is not None
    assert (fault["code"], fault["limit"]) == ("budget_exhausted", 3)
    more = replace(state, spent=replace(state.spent, granted_tool_calls=1))
    assert tool_call_refusal(more, BUDGETS) is None
    refused = core_job_refusal(state, BUDGETS, lane="edge")
    assert refused is not None
    assert refused["code"] == "too_many_jobs"
    assert core_job_refusal(state, Budgets(), lane="edge") is None


def test_the_end_of_a_budget_is_said_once() -> None:
    session = Session()
    event = exhausted_event(TOKENS, session.state, BUDGETS, dm="console", lane="edge")
    assert event is not None
    assert event.limit == 10_000
    session.commit(event)
    assert exhausted_event(TOKENS, session.state, BUDGETS, dm="console", lane="edge") is None
    assert exhausted_event(CALLS, session.state, BUDGETS, dm="console", lane="edge") is not None


def test_a_budget_that_was_raised_in_the_configuration_stops_nothing_any_more() -> None:
    session = Session()
    event = exhausted_event(CALLS, session.state, BUDGETS, dm="console", lane="edge")
    assert event is not None
    session.commit(event)
    assert exhausted_budget(session.state, BUDGETS) == CALLS
    raised = BUDGETS.model_copy(update={"max_tool_calls_per_session": 4})
    assert exhausted_budget(session.state, raised) is None
    assert parse_grant("yes", session.state, raised, lane="edge") is None, (
        "nothing is asked any more"
    )
    again = exhausted_event(CALLS, session.state, raised, dm="console", lane="edge")
    assert again is not None and again.limit == 4
    session.commit(again)
    assert exhausted_budget(session.state, raised) == CALLS


def test_the_question_says_in_words_which_budget_is_used_up_and_where_it_is_set() -> None:
    state = SessionState(spent=BudgetUsage(tokens=9_000, tool_calls=3))
    calls, tokens = budget_question(CALLS, state, BUDGETS), budget_question(TOKENS, state, BUDGETS)
    assert "The budget of tool calls of this session is used up: 3 of 3 tool calls." in calls
    assert "budgets.max_tool_calls_per_session in config.json" in calls
    assert "9,000 of 10,000 tokens, and the next step needs more than is left." in tokens


@pytest.mark.parametrize("text", ["/continue", " /Continue ", "yes", "Yes!", "ok.", "go on"])
def test_a_yes_while_a_budget_is_used_up_grants_as_much_again(text: str) -> None:
    session = Session()
    assert parse_grant(text, session.state, BUDGETS, lane="edge") is None
    for budget, amount in ((TOKENS, 10_000), (CALLS, 3)):
        event = exhausted_event(budget, session.state, BUDGETS, dm="console", lane="edge")
        assert event is not None
        session.commit(event)
        assert f"{amount:,}" in budget_question(budget, session.state, BUDGETS)
        grant = parse_grant(text, session.state, BUDGETS, lane="edge")
        assert grant is not None
        assert (grant.budget, grant.amount) == (budget, amount)
        session.commit(grant.event("inb_1"))
        assert session.state.exhausted is None
        assert limit_of(budget, session.state, BUDGETS) == 2 * amount


@pytest.mark.parametrize("text", ["no", "", "yes but first tell me what it cost", "/continued"])
def test_anything_else_grants_nothing(text: str) -> None:
    state = SessionState(exhausted=TOKENS)
    assert parse_grant(text, state, BUDGETS, lane="edge") is None


class BilledModel(SlowModel):
    """A model whose provider reports everything."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        return Completion(
            "x", (), "m-2026", "stop", 100, 20, 1.0, cached_tokens=60, cache_write_tokens=30,
            reasoning_tokens=5, billed_usd=Decimal("0.1"),
        )  # fmt: skip


class OneReservation:
    """Reservations of money that are granted."""

    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []

    @asynccontextmanager
    async def reserve(self, call: PlannedCall) -> AsyncIterator[Reservation]:
        self.calls.append(call)
        yield Reservation("ses:call")


async def test_an_event_gets_all_that_the_price_of_its_call_depends_on() -> None:
    session, money = Session(), OneReservation()
    metered = MeteredModel(
        BilledModel(),
        budget=TokenBudget(session, settings_with(BUDGETS)),
        money=money,
        estimator=TokenEstimator(),
        counter=NoTokenCounter(),
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )
    purpose = CallPurpose(name="strong", lane="core:x", job_id="job_1")
    async with metered.complete(MODEL, None, PROMPT, purpose) as completion:
        usage = completion.usage
    assert usage == ModelUsage(
        name="strong",
        job_id="job_1",
        cache_write_tokens=30,
        reasoning_tokens=5,
        billed_usd=Decimal("0.1"),
        reservation="ses:call",
    )
    (planned,) = money.calls
    assert (planned.name, planned.job_id, planned.completion_tokens) == ("strong", "job_1", 500)
    assert planned.prompt_tokens > 300
