"""What one agent's pages may take: bytes, turns, memory and processor time, by themselves."""

import asyncio
from datetime import UTC, datetime

import pytest

from choir_browser.egress.traffic_limits import TrafficBucket, TrafficLimits
from choir_browser.limits.kill_policy import (
    KillReasons,
    ResourceLimits,
    choose_kills,
    excess_cpu_s,
    needs_owners,
)
from choir_browser.limits.load_slots import LoadSlots
from choir_browser.limits.processes import ProcessSample

MB = 1_000_000
BOUNDS = ResourceLimits(agent_memory=500 * MB, memory=2_000 * MB, work_s=60)


class SetClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def page(pid: int, megabytes: int) -> ProcessSample:
    return ProcessSample(pid, started=1, renderer=True, memory=megabytes * MB, cpu_s=0)


def engine(megabytes: int) -> ProcessSample:
    return ProcessSample(1, started=1, renderer=False, memory=megabytes * MB, cpu_s=0)


def ended(
    *found: ProcessSample, excess_s: dict[int, float] | None = None, **own: set[int]
) -> list[int]:
    owners = {agent: frozenset(pids) for agent, pids in own.items()}
    return [e.process.pid for e in choose_kills(found, excess_s or {}, owners, BOUNDS)]


def test_bytes_are_given_back_with_time_and_what_was_overdrawn_is_paid_first() -> None:
    clock = SetClock()
    allowance = TrafficBucket(TrafficLimits(60 * MB), clock)
    assert allowance.consume(59 * MB) and not allowance.is_empty()
    assert not allowance.consume(11 * MB)
    assert allowance.is_empty()
    clock.seconds += 9
    assert allowance.is_empty()
    clock.seconds += 2
    assert allowance.is_empty(), "a trickle is not given out"
    clock.seconds += 15
    assert not allowance.is_empty()
    clock.seconds += 3_600
    assert not allowance.consume(60 * MB), "no more than one full minute is kept"
    assert "60 MB within a minute" in allowance.limit_error().message


def test_requests_beyond_a_burst_wait_for_their_turn_and_a_rest_gives_the_burst_back() -> None:
    clock = SetClock()
    allowance = TrafficBucket(TrafficLimits(MB, request_burst=3, requests_per_second=2), clock)
    assert [allowance.count_request() for _ in range(6)] == [0, 0, 0, 0.5, 1, 1.5]
    clock.seconds += 1.5
    assert allowance.count_request() == 0.5
    clock.seconds += 3_600
    assert [allowance.count_request() for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_page_above_its_agents_memory_is_ended_and_no_other() -> None:
    assert ended(page(7, 501), page(8, 400), engine(300)) == [7]


def test_of_pages_that_are_too_much_together_the_fattest_is_ended() -> None:
    found = (page(7, 200), page(8, 250), page(9, 100), page(10, 260))
    assert ended(*found, greedy={7, 8, 9}, modest={10}) == [8]
    assert ended(*found, one={7, 9}, other={8}, modest={10}) == []


def test_an_agent_that_loses_a_page_already_loses_no_second_one() -> None:
    assert ended(page(7, 501), page(8, 450), greedy={7, 8}) == [7]


def test_owners_are_asked_for_only_when_an_agent_could_be_over() -> None:
    assert not needs_owners([page(7, 200), page(8, 200), engine(900)], BOUNDS)
    assert needs_owners([page(7, 300), page(8, 300)], BOUNDS)
    assert not needs_owners([page(7, 900)], BOUNDS), "its size alone says enough"


def test_a_browser_that_is_too_large_as_a_whole_loses_its_fattest_process() -> None:
    assert ended(*(page(pid, 450) for pid in (7, 8, 9)), page(10, 460), engine(300)) == [10]
    assert ended(page(7, 100), engine(1_950)) == [1]
    assert ended(page(7, 100), engine(1_800)) == []


def test_work_piles_up_above_a_quarter_of_a_processor_and_goes_down_with_rest() -> None:
    assert excess_cpu_s(0, used_s=10, seconds=10) == 7.5
    assert excess_cpu_s(7.5, used_s=0, seconds=10) == 5
    assert excess_cpu_s(1, used_s=0, seconds=10) == 0
    assert ended(page(7, 1), page(8, 1), excess_s={7: 61, 8: 59}) == [7]


def test_the_reason_of_an_ending_is_told_once_and_soon() -> None:
    clock = SetClock()
    told = KillReasons(clock)
    told.record("too fat")
    assert told.has_recent
    assert (told.pop_recent(), told.pop_recent()) == ("too fat", None)
    assert not told.has_recent
    told.record("too fat")
    clock.seconds += 60
    assert not told.has_recent and told.pop_recent() is None


async def test_no_agent_takes_every_turn() -> None:
    turns, done = LoadSlots(4), asyncio.Event()
    took: list[str] = []

    async def load(agent_id: str) -> None:
        async with turns.acquire(agent_id):
            took.append(agent_id)
            await done.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(load("greedy"))
        for _ in range(2):
            group.create_task(load("modest"))
        async with asyncio.timeout(60):
            while len(took) < 4:
                await asyncio.sleep(0)
        assert sorted(took) == ["greedy", "greedy", "modest", "modest"]
        done.set()
    assert len(took) == 12


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_worker_with_one_turn_gives_it_to_anybody(at_once: int) -> None:
    turns = LoadSlots(at_once)
    async with asyncio.timeout(60), turns.acquire("one"):
        pass
