"""When a compaction begins, how many at once, and what a failure leads to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import orjson
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from choir_agent.budgets.limits import TokenBudget
from choir_agent.compaction.compaction_model import CompactionModel
from choir_agent.compaction.compactor import Compactor
from choir_agent.compaction.event_lines import HEADING
from choir_agent.log.committed_event import EventListeners
from choir_agent.log.session_log import SessionLog
from choir_agent.models.model_wrappers import MeteredModel
from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.prompt.static_prompts import StaticPrompts
from choir_agent.settings import CurrentSettings
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.clock import SystemClock
from choir_common.redactor import Redactor
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.config_parts import FeatureFlags
from choir_common.wire.events import (
    CompactionRequested,
    EventPayload,
    MemoryCompacted,
    parse_payload,
)
from choir_models.fallback import CoolDowns
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ModelFailed,
    ModelRequestRejected,
    OutputListener,
    Prompt,
)
from tests.support.agent_fakes import NoMoneyBudget, NoTokenCounter, UnderscoreNames
from tests.unit.agent.told_session import StillClock, ToldSession

GOOD = orjson.dumps({"memory_delta": {"summary_update": "so far"}}).decode()
WINDOW = 16


class WrittenModel:
    """Answers what the test has written, when the test lets it."""

    def __init__(self) -> None:
        self.answer: str | Exception = GOOD
        self.open = asyncio.Event()
        self.open.set()
        self.asked: list[Prompt] = []
        self.in_flight = 0
        self.most = 0
        self.refuses_json_mode = False

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        self.asked.append(prompt)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self.open.wait()
        finally:
            self.in_flight -= 1
        if self.refuses_json_mode and prompt.json_only:
            raise ModelRequestRejected("response_format is not supported")
        if isinstance(self.answer, Exception):
            raise self.answer
        return Completion(self.answer, (), "written", "stop", 100, 10, 1.0)

    async def close(self) -> None:
        pass


class World(ToldSession):
    """A session whose windows are compacted."""

    def __init__(self, budgets: Budgets | None = None) -> None:
        super().__init__()
        self.model = WrittenModel()
        self.budgets = budgets or Budgets()
        self.features = FeatureFlags()
        self.memory = WorkingMemory()
        self.assembler = PromptAssembler(
            self.memory, StaticPrompts("edge", "core"), UnderscoreNames()
        )
        purse = TokenBudget(self, self)
        asker = CompactionModel(
            model=MeteredModel(
                self.model,
                budget=purse,
                money=NoMoneyBudget(),
                estimator=self.memory.token_estimator,
                counter=NoTokenCounter(),
                committer=self,
                clock=SystemClock(),
            ),
            settings=self,
            session=self,
            cool_downs=CoolDowns(SystemClock()),
        )
        self.compactor = Compactor(
            committer=self,
            memory=self.memory,
            assembler=self.assembler,
            model=asker,
            settings=self,
        )
        listeners = EventListeners()
        listeners.add(self.memory)
        listeners.add(self.compactor)
        self.log = SessionLog("ses", clock=StillClock(), listener=listeners, redactor=Redactor())

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int:
        return self.append(lane, payload)

    def compacted(self) -> list[MemoryCompacted]:
        payloads = (parse_payload(entry.event()) for entry in self.log.entries)
        return [p for p in payloads if isinstance(p, MemoryCompacted)]

    def count(self, lane: str = "edge") -> int:
        window = self.memory.window(lane)
        assert window is not None
        return window.count

    def fill(self, turns: int, begin: int = 0) -> None:
        for number in range(begin, begin + turns):
            self.turn(number)

    def current(self) -> CurrentSettings:
        model = ModelConfig(model="m", endpoint="http://127.0.0.1:1/v1")
        return CurrentSettings(
            AgentSettings(
                model_name="m",
                model=model,
                budgets=self.budgets,
                heartbeat_interval_ms=1000,
                rate_limit_retry_ms=1,
                event_window=WINDOW,
                features=self.features,
            )
        )


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.compactor.run())
    try:
        await settle()
        yield
    finally:
        assert not task.done(), task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def settle(holds: Callable[[], bool] | None = None) -> None:
    """Let everything run that can, until something holds."""
    async with asyncio.timeout(60):
        for _ in range(20):
            await asyncio.sleep(0)
        while holds is not None and not holds():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)


async def test_nothing_is_folded_while_the_window_is_not_full() -> None:
    world = World()
    async with running(world):
        world.fill(WINDOW // 2)
        await settle()
    assert world.model.asked == []


async def test_a_full_window_is_folded_once_and_then_left_alone() -> None:
    world = World()
    async with running(world):
        world.fill(WINDOW // 2 + 1)
        await settle(lambda: bool(world.compacted()))
    assert len(world.compacted()) == len(world.model.asked) == 1
    assert world.count() <= WINDOW // 2 + 1


async def test_a_restored_log_that_is_full_is_folded_without_a_further_event() -> None:
    world = World()
    world.fill(WINDOW)
    async with running(world):
        await settle(lambda: bool(world.compacted()))


async def test_one_compaction_at_a_time_for_a_lane_but_lanes_do_not_wait_for_each_other() -> None:
    world = World()
    world.model.open.clear()
    async with running(world):
        world.fill(WINDOW)
        await settle(lambda: world.model.in_flight == 1)
        world.fill(3, begin=50)
        await settle()
        assert world.model.most == 1
        world.start_job("fix")
        for number in range(WINDOW):
            world.use("job_fix", f"c{number}", "core:fix")
        await settle(lambda: world.model.in_flight == 2)
        world.model.open.set()
        await settle(lambda: world.model.in_flight == 0)
    assert {p.target for p in world.compacted()} == {"edge", "core:fix"}
    assert world.model.most == 2


async def test_after_a_failure_the_window_has_to_grow_before_the_next_attempt() -> None:
    world = World()
    world.model.answer = ModelFailed("no")
    async with running(world):
        world.fill(WINDOW // 2 + 1)
        await settle(lambda: len(world.model.asked) == 1)
        await settle()
        assert len(world.model.asked) == 1
        world.model.answer = GOOD
        world.fill(WINDOW // 8, begin=50)
        await settle(lambda: bool(world.compacted()))
    assert len(world.model.asked) == 2


async def test_a_delta_out_of_order_is_answered_with_what_is_wrong_and_asked_for_once_more() -> (
    None
):
    world = World()
    world.model.answer = "no json"
    async with running(world):
        world.fill(WINDOW // 2 + 1)
        await settle(lambda: len(world.model.asked) == 2)
    first, second = world.model.asked
    assert second.messages[: len(first.messages)] == first.messages
    assert b"no json" in second.messages[-2] and b"not one JSON object" in second.messages[-1]
    assert [p.failed[:10] for p in world.compacted()] == ["The answer", "The answer"]
    assert world.state.spent.tokens == 220 and world.state.summaries == ()


@pytest.mark.parametrize("answer", [ModelFailed("no"), "no json"])
async def test_a_model_that_cannot_fold_is_soon_left_alone_and_lines_are_selected(
    answer: str | Exception,
) -> None:
    world = World()
    world.model.answer = answer
    most = 0
    async with running(world):
        for number in range(120):
            world.turn(number)
            await settle()
            most = max(most, world.count())
    assert most <= 2 * WINDOW + 3
    # three tries, and then one after 2, 4, 8 … compactions; each is asked once more what it did wrong
    per_try = 2 if answer == "no json" else 1
    assert len(world.model.asked) <= 6 * per_try
    gone = [p for p in world.compacted() if not p.failed]
    assert gone and all(p.model == "" for p in gone)
    summary = gone[-1].summary.summary
    assert summary.startswith(HEADING)
    assert "user: ask 110" in summary and "agent: reply 110" in summary


async def test_after_its_rest_a_model_is_asked_again_and_trusted_again() -> None:
    world = World()
    world.model.answer = ModelFailed("no")
    async with running(world):
        for number in range(20):
            world.turn(number)
            await settle()
        world.model.answer = GOOD
        for number in range(20, 60):
            world.turn(number)
            await settle()
    folded = [p for p in world.compacted() if p.model]
    assert len(folded) >= 3
    assert folded[-1].summary.summary.startswith(HEADING)
    assert folded[-1].summary.summary.endswith("so far")


async def test_a_request_of_the_user_asks_the_model_even_while_it_rests() -> None:
    world = World()
    world.model.answer = ModelFailed("no")
    async with running(world):
        for number in range(20):
            world.turn(number)
            await settle()
        before = len(world.model.asked)
        world.model.answer = GOOD
        world.append("edge", CompactionRequested(target="edge"))
        await settle(lambda: len(world.model.asked) > before)


async def test_json_is_asked_for_by_the_providers_own_means() -> None:
    world = World()
    async with running(world):
        world.fill(WINDOW)
        await settle(lambda: bool(world.compacted()))
    assert [prompt.json_only for prompt in world.model.asked] == [True]


async def test_the_line_of_a_compactions_model_call_names_its_lane() -> None:
    world = World()
    with capture_logs([merge_contextvars]) as lines:
        async with running(world):
            world.fill(WINDOW)
            await settle(lambda: bool(world.compacted()))
    (call,) = (line for line in lines if line["event"] == "model call ended")
    assert (call["lane"], call["purpose"], call["prompt_tokens"]) == ("edge", "compaction", 100)


async def test_json_mode_can_be_switched_off() -> None:
    world = World()
    world.features = FeatureFlags(json_mode=False)
    async with running(world):
        world.fill(WINDOW)
        await settle(lambda: bool(world.compacted()))
    assert [prompt.json_only for prompt in world.model.asked] == [False]


async def test_an_endpoint_without_a_json_mode_is_asked_without_it_from_then_on() -> None:
    world = World()
    world.model.refuses_json_mode = True
    async with running(world):
        for number in range(40):
            world.turn(number)
            await settle()
    assert [prompt.json_only for prompt in world.model.asked][:3] == [True, False, False]
    assert all(p.model for p in world.compacted())


async def test_a_spent_budget_means_no_model_call_at_all() -> None:
    world = World(Budgets(total_session_tokens=50))
    async with running(world):
        world.fill(WINDOW)
        await settle()
    assert world.model.asked == []


async def test_a_request_that_comes_during_a_compaction_is_not_forgotten() -> None:
    world = World()
    world.model.open.clear()
    async with running(world):
        world.fill(WINDOW)
        await settle(lambda: world.model.in_flight == 1)
        world.append("edge", CompactionRequested(target="edge"))
        await settle()
        world.model.open.set()
        await settle(lambda: len(world.compacted()) == 2)
    # all but the last answered turn
    assert world.count() == 2


async def test_a_lane_whose_prompt_is_too_long_waits_for_what_is_in_flight() -> None:
    world = World()
    world.model.open.clear()
    async with running(world):
        world.fill(WINDOW)
        await settle(lambda: world.model.in_flight == 1)
        shrinking = asyncio.create_task(world.compactor.shrink("edge"))
        await settle()
        assert not shrinking.done()
        world.model.open.set()
        assert await shrinking
    assert len(world.model.asked) == 1


@pytest.mark.parametrize("answer", [ModelFailed("no"), "no json"])
async def test_shrinking_works_without_a_model_too(answer: str | Exception) -> None:
    world = World()
    world.model.answer = answer
    world.fill(4)
    before = world.edge()
    assert await world.compactor.shrink("edge")
    assert sum(map(len, world.edge().messages[2:])) < sum(map(len, before.messages[1:]))


async def test_what_cannot_be_shrunk_says_so() -> None:
    world = World()
    world.ask(1)
    assert not await world.compactor.shrink("edge")
    assert not await world.compactor.shrink("core:none")


async def test_a_bug_in_a_compaction_does_not_end_the_session() -> None:
    world = World()
    world.model.answer = RuntimeError("a bug")
    async with running(world):
        world.fill(WINDOW)
        await settle()
        world.model.answer = GOOD
        world.fill(2, begin=50)
        await settle(lambda: bool(world.compacted()))
