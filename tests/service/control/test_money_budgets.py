"""Limits in money hold for all lanes and agents together, across restarts and crashes."""

import asyncio
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from choir_common.clients.control import NatsUsageClient
from choir_common.ids import new_id
from choir_common.wire.events import BudgetGranted, UsageRecorded
from choir_common.wire.messages import Empty
from choir_common.wire.money import (
    RELEASE_TOOL,
    RESERVE_TOOL,
    SPENT_TOOL,
    ModelUsage,
    MoneyReserved,
    ReleaseForMemory,
    ReleaseMoney,
    ReserveForMemory,
    ReserveMoney,
    SpentToday,
    UsageReport,
    UsageReports,
)
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_ledger import apply, change_config, costs, hand_of, output
from tests.service.control.world import World
from tests.support.nightly import nightly_from

PRICES = {"input": 1, "output": 1}
"""A dollar for a million tokens: a token costs a micro-dollar."""


@pytest.fixture
async def limited(stopped: World) -> World:
    """A ready choird in which an agent may spend a dollar a day."""
    change_config(stopped, models__default__prices=PRICES, budgets__usd_per_day=1)
    await stopped.start()
    return stopped


async def use(hand: AgentHand, tool: str, arguments: Any, call_id: str = "") -> HostToolResponse:
    request = HostToolRequest(
        tool_name=tool,
        call_id=call_id or new_id("call"),
        input=arguments.model_dump(mode="json"),
    )
    return HostToolResponse.model_validate_json(await hand.call("EXECUTE_HOST_TOOL", request))


async def reserve(
    hand: AgentHand, dollars: float, job_id: str | None = None, call_id: str = ""
) -> MoneyReserved:
    request = ReserveMoney(
        name="default",
        job_id=job_id,
        prompt_tokens=int(dollars * 1_000_000),
        completion_tokens=0,
        hold_s=600,
    )
    answer = await use(hand, RESERVE_TOOL, request, call_id)
    assert answer.status == "success", answer.output
    return MoneyReserved.model_validate(answer.output, strict=False)


async def spend(hand: AgentHand, dollars: float, reserved: MoneyReserved, **more: Any) -> None:
    tokens = int(dollars * 1_000_000)
    hand.add(output(tokens, 0, reservation=reserved.reservation, **more))
    await hand.flush()


async def begun(world: World) -> AgentHand:
    hand = await world.agent()
    await hand.begin()
    return hand


async def test_a_day_is_reserved_settled_refused_granted_and_survives_a_restart(
    limited: World,
) -> None:
    hand = await begun(limited)
    first = await reserve(hand, 0.6)
    assert first.reservation and first.budget is None
    refused = await reserve(hand, 0.5)
    assert (refused.reservation, refused.budget) == ("", "usd_per_day")
    assert refused.limit_micro_usd == 1_000_000 and refused.until
    for words in ("$0.60 of $1.00", "$0.50", "/continue", "budgets.usd_per_day"):
        assert words in refused.text
    # the call cost less than was reserved
    await spend(hand, 0.25, first)
    second = await reserve(hand, 0.75)
    assert second.reservation
    await spend(hand, 0.75, second)
    assert (await reserve(hand, 0.000001)).budget == "usd_per_day"
    await limited.stop()
    await limited.start()
    hand = await hand_of(limited, "main")
    await hand.hello()
    assert (await reserve(hand, 0.000001)).budget == "usd_per_day"
    hand.add(BudgetGranted(budget="usd_per_day", amount=0, inbox_id="i"))
    await hand.flush()
    granted = await reserve(hand, 1)
    assert granted.reservation
    assert (await reserve(hand, 0.000001)).limit_micro_usd == 2_000_000


async def test_a_rule_on_spending_has_todays_sum_of_the_agent_and_explain_shows_it(
    world: World,
) -> None:
    rule = {"action": "deny", "tools": ["choir.exec"], "spent_above": 0.5, "why": "enough"}
    change_config(world, models__default__prices=PRICES, policy=[rule])
    await apply(world)
    hand = await begun(world)
    explained = []
    for dollars in ("0.5", "0.75"):
        await spend(hand, 0.5 if dollars == "0.5" else 0.25, MoneyReserved())
        answer = await use(hand, SPENT_TOOL, Empty())
        assert SpentToday.model_validate(answer.output, strict=False).usd == Decimal(dollars)
        call = {"tool": "choir.exec", "arguments": {"command": "ls"}}
        explained.append((await world.post("/v1/agents/main/policy", json=call)).json())
    assert [item["decision"]["action"] for item in explained] == ["allow", "deny"]
    assert explained[0]["rules"][0]["unmet"] == ["spent_above"]
    assert Decimal(explained[1]["spent_usd"]) == Decimal("0.75")


async def test_a_repeated_request_reserves_once_and_a_release_gives_back(limited: World) -> None:
    hand = await begun(limited)
    once = await reserve(hand, 0.6, call_id="call-1")
    assert await reserve(hand, 0.6, call_id="call-1") == once
    await use(hand, RELEASE_TOOL, ReleaseMoney(reservation=once.reservation))
    assert (await reserve(hand, 1)).reservation


async def test_a_job_and_a_call_have_limits_of_their_own(limited: World) -> None:
    change_config(limited, budgets={"usd_per_job": 0.1, "usd_per_call": 0.08})
    await apply(limited)
    hand = await begun(limited)
    assert (await reserve(hand, 0.09)).budget == "usd_per_call"
    first = await reserve(hand, 0.07, "job-1")
    await spend(hand, 0.07, first, job_id="job-1")
    assert (await reserve(hand, 0.07, "job-1")).budget == "usd_per_job"
    assert (await reserve(hand, 0.07, "job-2")).reservation
    assert (await reserve(hand, 0.07)).reservation, "the edge lane is no job"


async def test_a_call_whose_agent_dies_is_charged_as_reserved(limited: World) -> None:
    hand = await begun(limited)
    lost = await reserve(hand, 0.7)
    assert lost.reservation
    limited.runtime.die("main")
    resumed = await hand_of(limited, "main", 2)
    await resumed.hello()
    assert (await reserve(resumed, 0.4)).budget == "usd_per_day"
    total = (await costs(limited)).total
    assert (total.cost_usd, total.estimated_calls) == (Decimal("0.7"), 1)


async def test_only_an_admin_extends_the_budget_of_all_agents(limited: World) -> None:
    change_config(
        limited,
        budgets={"total_usd_per_month": 1},
        agents__other__defaults__workspace="spare",
    )
    await apply(limited)
    main = await begun(limited)
    assert (await limited.post("/v1/agents/other/start", json={})).is_success
    other = await hand_of(limited, "other")
    await other.begin()
    await spend(main, 0.9, await reserve(main, 0.9))
    refused = await reserve(other, 0.2)
    assert refused.budget == "total_usd_per_month" and "Only an admin" in refused.text
    for hand in (other, main):
        hand.add(BudgetGranted(budget="total_usd_per_month", amount=0, inbox_id="i"))
        await hand.flush()
        allowed = bool((await reserve(other, 0.2)).reservation)
        assert allowed is (hand is main)


@pytest.mark.parametrize("seed", nightly_from(1, range(3)))
@pytest.mark.usefixtures("wide_pools")
async def test_concurrent_lanes_of_several_agents_never_exceed_a_limit(
    limited: World, seed: int
) -> None:
    change_config(
        limited,
        budgets={"total_usd_per_day": 1, "usd_per_day": 0.7},
        agents__other__defaults__workspace="spare",
    )
    await apply(limited)
    generator = random.Random(seed)
    assert (await limited.post("/v1/agents/other/start", json={})).is_success
    hands = [await begun_of(limited, name) for name in ("main", "other")]
    locks = {hand.spec.agent_id: asyncio.Lock() for hand in hands}
    refused = 0

    async def lane(hand: AgentHand) -> None:
        nonlocal refused
        for _ in range(12):
            dollars = generator.randint(1, 90_000) / 1_000_000
            reserved = await reserve(hand, dollars)
            if not reserved.reservation:
                refused += 1
                continue
            await asyncio.sleep(0)
            if generator.random() < 0.2:
                await use(hand, RELEASE_TOOL, ReleaseMoney(reservation=reserved.reservation))
                continue
            async with locks[hand.spec.agent_id]:
                await spend(hand, generator.uniform(0, dollars), reserved)
            assert (await costs(limited)).total.cost_usd <= 1

    await asyncio.gather(*(lane(hand) for hand in hands for _ in range(4)))
    by_agent = {line.group: line.cost_usd for line in (await costs(limited, by="agent")).lines}
    assert sum(by_agent.values()) <= 1 and max(by_agent.values()) <= Decimal("0.7")
    assert refused > 0 and sum(by_agent.values()) > Decimal("0.6")
    left = await limited.database.fetchval("SELECT count(*) FROM choir_control.budget_reservations")
    assert left == 0


async def begun_of(world: World, agent_id: str) -> AgentHand:
    hand = await hand_of(world, agent_id)
    await hand.begin()
    return hand


async def reserve_for_memory(
    world: World, dollars: float, reservation: str = "use_1"
) -> MoneyReserved:
    call = ReserveMoney(kind="memory", name="", prompt_tokens=int(dollars * 1_000_000), hold_s=600)
    request = ReserveForMemory(reservation=reservation, agent_id="main", call=call)
    return await NatsUsageClient(world.bus).reserve_money(request)


async def report_memory(world: World, dollars: float, reservation: str) -> None:
    report = UsageReport(
        report_id=f"report-{reservation}",
        kind="memory",
        agent_id="main",
        model="scripted",
        at=datetime.now(UTC),
        prompt_tokens=int(dollars * 1_000_000),
        usage=ModelUsage(reservation=reservation),
    )
    await NatsUsageClient(world.bus).report_usage(UsageReports(reports=(report,)))


async def test_memory_reserves_from_its_agents_budget_and_a_refusal_is_said_once(
    limited: World,
) -> None:
    change_config(limited, memory__model="default")
    await apply(limited)
    hand = await begun(limited)
    assert (await reserve_for_memory(limited, 0.6)).reservation == "use_1"
    assert await reserve_for_memory(limited, 0.6), "a repeated request reserves once"
    assert (await reserve(hand, 0.5)).budget == "usd_per_day", "the agent shares the budget"
    for number in range(3):
        refused = await reserve_for_memory(limited, 0.5, f"use_refused_{number}")
        assert (refused.reservation, refused.budget) == ("", "usd_per_day")
    (notice,) = await limited.delivered(1)
    for words in ("Memory's model", "$0.60 of $1.00", "choirctl config set budgets.usd_per_day"):
        assert words in notice
    assert (await costs(limited)).total.calls == 0, "the call may still be in flight"
    # it cost less than was reserved; the report settles it, also when it is repeated
    for _ in range(2):
        await report_memory(limited, 0.1, "use_1")
    assert (await costs(limited)).total.cost_usd == Decimal("0.1")
    lost = await reserve(hand, 0.9)
    assert lost.reservation
    await use(hand, RELEASE_TOOL, ReleaseMoney(reservation=lost.reservation))
    # a call that failed gives back, and one that memory's death cut off is charged
    await reserve_for_memory(limited, 0.5, "use_failed")
    await NatsUsageClient(limited.bus).release_money(ReleaseForMemory(reservation="use_failed"))
    await reserve_for_memory(limited, 0.3, "use_lost")
    await limited.database.execute(
        "UPDATE choir_control.budget_reservations SET expires_at = clock_timestamp()"
    )
    assert (await reserve(hand, 0.7)).budget == "usd_per_day"
    kinds = {line.group: line for line in (await costs(limited, by="kind")).lines}
    assert (kinds["memory"].cost_usd, kinds["memory"].estimated_calls) == (Decimal("0.4"), 1)
    # its report was only late
    await report_memory(limited, 0.2, "use_lost")
    total = (await costs(limited)).total
    assert (total.cost_usd, total.estimated_calls) == (Decimal("0.3"), 0)
    assert limited.gateway.texts == [notice]


async def test_hearing_and_speaking_are_reserved_by_their_own_prices(limited: World) -> None:
    endpoint = "http://127.0.0.1:9/v1"
    change_config(
        limited,
        transcription={"ears": {"model": "whisper-1", "endpoint": endpoint}},
        tts={"loud": {"provider": "openai", "model_id": "tts-1", "endpoint": endpoint}},
        agents__main__budgets={"usd_per_day": 0.5},
    )
    await apply(limited)
    hand = await begun(limited)

    async def ask(**arguments: Any) -> MoneyReserved:
        answer = await use(hand, RESERVE_TOOL, ReserveMoney(hold_s=60, **arguments))
        return MoneyReserved.model_validate(answer.output, strict=False)

    assert (await ask(kind="transcription", name="ears", audio_seconds=60.0)).reservation
    assert (await ask(kind="speech", name="loud", characters=1_000)).reservation
    amounts = await limited.database.fetch(
        "SELECT kind, amount_usd FROM choir_control.budget_reservations ORDER BY kind"
    )
    assert [tuple(row) for row in amounts] == [
        ("speech", Decimal("0.015")),
        ("transcription", Decimal("0.006")),
    ]
    refused = await ask(kind="speech", name="loud", characters=1_000_000)
    assert "choirctl config set agents.main.budgets.usd_per_day" in refused.text
    unknown = await ask(kind="transcription", name="gone", audio_seconds=1.0)
    assert unknown.budget == "usd_per_day" and "transcription.gone.prices" in unknown.text


async def test_a_call_gets_the_output_that_the_money_pays_for_down_to_a_minimum(
    limited: World,
) -> None:
    hand = await begun(limited)

    async def ask(call_id: str) -> MoneyReserved:
        request = ReserveMoney(
            name="default",
            prompt_tokens=100_000,
            completion_tokens=500_000,
            least_completion_tokens=150_000,
            hold_s=600,
        )
        answer = await use(hand, RESERVE_TOOL, request, call_id)
        return MoneyReserved.model_validate(answer.output, strict=False)

    assert (await ask("call-1")).completion_tokens == 500_000
    lowered = await ask("call-2")
    assert lowered.reservation and lowered.completion_tokens == 300_000, "$0.40 of $1.00 were left"
    assert await ask("call-2") == lowered, "a repeated request gets the same limit"
    refused = await ask("call-3")
    assert (refused.reservation, refused.budget) == ("", "usd_per_day")
    assert "$0.25" in refused.text, "what the shortest answer that is worth the call would cost"
    await spend(hand, 0.25, lowered)
    # $0.15 are left, and the prompt costs $0.10
    assert (await ask("call-4")).budget == "usd_per_day"
    # the limit of one call lowers its output, too
    change_config(limited, budgets={"usd_per_call": 0.3})
    await apply(limited)
    assert (await ask("call-5")).completion_tokens == 200_000
    change_config(limited, models__default__prices={"input": 1, "output": 0})
    await apply(limited)
    free = await ask("call-6")
    assert free.reservation and free.completion_tokens is None, "its output needs no limit"


async def test_a_failed_call_that_is_billed_settles_its_reservation_and_counts_as_estimated(
    limited: World,
) -> None:
    hand = await begun(limited)
    reserved = await reserve(hand, 0.7)
    hand.add(
        UsageRecorded(
            turn_id=None,
            purpose="failed_call",
            model="scripted",
            prompt_tokens=200_000,
            completion_tokens=50_000,
            usage=ModelUsage(name="default", counted=False, reservation=reserved.reservation),
        )
    )
    await hand.flush()
    total = (await costs(limited)).total
    assert (total.cost_usd, total.estimated_calls, total.calls) == (Decimal("0.25"), 1, 1)
    assert (await reserve(hand, 0.75)).reservation
    assert (await reserve(hand, 0.000001)).budget == "usd_per_day"
