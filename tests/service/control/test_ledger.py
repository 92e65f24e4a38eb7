"""Every call is priced once, with the prices in force, and its amount outlives its text."""

import asyncio
import json
import random
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from choir_common.bus import subjects
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.events import (
    CoreStarted,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
    Reply,
)
from choir_common.wire.messages import Empty
from choir_common.wire.money import CostReport, ModelUsage, UsageReport, UsageReports
from choir_control.migrations.tables import SCHEMA
from tests.service.control.agent_hand import AgentHand
from tests.service.control.hand_runtime import HandRuntime
from tests.service.control.world import World, until
from tests.support.postgres import PASSWORD
from tests.support.schema_models import MIGRATIONS

PRICES = {"input": 3, "cached_input": 0.3, "cache_write": 3.75, "output": 15}
DMS = {"main": "console", "other": "second"}
CANARY = "plum-velvet-otter"


def change_config(world: World, **changes: Any) -> None:
    """Set values in config.json, by dotted path."""
    config = json.loads(world.settings.config_file.read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        section = config
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    world.settings.config_file.write_text(json.dumps(config))


async def apply(world: World) -> None:
    assert (await world.post("/v1/config/load")).is_success
    answer = await world.post("/v1/config/apply")
    assert answer.is_success, answer.text


async def costs(world: World, **query: str) -> CostReport:
    answer = await world.get("/v1/cost", params=query)
    assert answer.is_success, answer.text
    return CostReport.model_validate_json(answer.content)


def output(prompt: int = 1_000, completion: int = 100, **details: Any) -> ModelOutput:
    return ModelOutput(
        turn_id="t",
        text=CANARY,
        model="scripted",
        finish_reason="stop",
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=details.pop("cached_tokens", 0),
        usage=ModelUsage(name="default", **details),
    )


@pytest.fixture
async def priced(stopped: World) -> World:
    """A ready choird whose model has prices."""
    change_config(stopped, models__default__prices=PRICES)
    await stopped.start()
    return stopped


class Provider:
    """The provider's own count of what it bills, in micro-dollars per million, as integers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.billed: dict[str, int] = defaultdict(int)
        self.calls = 0

    def bill(self, agent_id: str) -> ModelOutput:
        """Make up a call and put it on the bill."""
        prompt, completion = self._random.randint(1, 90_000), self._random.randint(1, 4_000)
        cached = self._random.randint(0, prompt)
        written = self._random.randint(0, prompt - cached)
        # integers: prices in hundredths of a dollar per million tokens
        self.billed[agent_id] += (
            cached * 30 + written * 375 + (prompt - cached - written) * 300 + completion * 1_500
        )
        self.calls += 1
        return output(prompt, completion, cached_tokens=cached, cache_write_tokens=written)


@pytest.mark.nightly  # test_money_kills.py kills real ones
async def test_a_days_ledger_equals_the_providers_count_although_agents_are_killed(
    priced: World,
) -> None:
    change_config(priced, agents__other__defaults__workspace="spare")
    await apply(priced)
    provider, generator = Provider(1), random.Random(2)
    assert (await priced.post("/v1/agents/other/start", json={})).is_success

    async def work(agent_id: str) -> None:
        hand = await hand_of(priced, agent_id)
        await hand.begin()
        for number in range(120):
            hand.add(provider.bill(agent_id), generator.choice(("edge", "core:a", "core:b")))
            if generator.random() < 0.6:
                request = hand.heartbeat()
                sends = [hand.call("HEARTBEAT", request) for _ in range(generator.choice((1, 3)))]
                await asyncio.gather(*sends)
                hand.acked = hand.head
            if number % 40 == 39:
                hand.add(Reply(turn_id="t", dm=DMS[agent_id], text="done", kind="answer"))
                await hand.flush()
                hand = await killed_and_resumed(priced, hand)
        await hand.flush()

    await asyncio.gather(work("main"), work("other"))
    by_agent = {line.group: line for line in (await costs(priced, by="agent")).lines}
    assert {name: line.cost_usd for name, line in by_agent.items()} == {
        name: Decimal(bill) / 100_000_000 for name, bill in provider.billed.items()
    }
    report = await costs(priced, by="day")
    assert [line.calls for line in report.lines] == [provider.calls] == [240]
    assert report.total.cost_usd == Decimal(sum(provider.billed.values())) / 100_000_000
    assert report.total.unknown_calls == report.total.estimated_calls == 0


async def hand_of(world: World, agent_id: str, epoch: int = 1) -> AgentHand:
    """Return the hand of an agent's newest start."""
    runtime: HandRuntime = world.runtime

    def specs() -> list[Any]:
        return [s for s in runtime.specs if s.agent_id == agent_id and s.epoch >= epoch]

    async def started() -> bool:
        return bool(specs())

    await until(started)
    return world.hand(specs()[-1])


async def killed_and_resumed(world: World, hand: AgentHand) -> AgentHand:
    """Kill an agent's process; return the hand of its next epoch."""
    world.runtime.die(hand.spec.agent_id)
    resumed = await hand_of(world, hand.spec.agent_id, hand.spec.epoch + 1)
    await resumed.hello()
    return resumed


async def test_a_change_of_prices_applies_from_then_on(priced: World) -> None:
    hand = await priced.agent()
    await hand.begin()
    hand.add(output(1_000_000, 0))
    await hand.flush()
    change_config(priced, models__default__prices={"input": 6, "output": 15})
    await apply(priced)
    hand.add(output(1_000_000, 0))
    await hand.flush()
    assert (await costs(priced)).total.cost_usd == 9


async def test_an_unknown_price_is_said_and_a_providers_own_statement_wins(world: World) -> None:
    hand = await world.agent()
    await hand.begin()
    hand.add(output(900, 100))
    hand.add(output(10, 10, billed_usd=Decimal("0.00123")))
    await hand.flush()
    total = (await costs(world)).total
    assert (total.cost_usd, total.calls) == (Decimal("0.00123"), 2)
    assert (total.unknown_calls, total.unknown_tokens) == (1, 1_000)
    metrics = (await world.get("/metrics")).text
    assert 'choir_unpriced_calls_total{agent="main",kind="chat",model="scripted"} 1.0' in metrics
    status = (await world.get("/v1/status")).json()
    assert status["spent_today"]["unknown_calls"] == 1
    text = (await world.say("/cost", "u1")).note or ""
    assert "$0.0013 and 1 call of unknown price (1,000 tokens)" in text


async def test_compactions_jobs_and_memory_count_and_reports_are_stored_once(
    priced: World,
) -> None:
    hand = await priced.agent()
    await hand.begin()
    hand.add(
        CoreStarted(job_id="job-1", job_name="secret-name", call_id="c", dm="console", task_spec="")
    )
    hand.add(output(1_000_000, 0, job_id="job-1"), "core:secret-name")
    hand.add(
        MemoryCompacted(
            target="core:secret-name",
            through_rev=1,
            delta={},
            summary=ReferenceSummary(summary=CANARY),
            model="scripted",
            prompt_tokens=1_000_000,
            failed="invalid",
            usage=ModelUsage(name="default", job_id="job-1"),
        ),
        "core:secret-name",
    )
    await hand.flush()
    report = UsageReport(
        report_id="r1",
        kind="memory",
        agent_id="main",
        name="default",
        model="scripted",
        at=datetime.now(UTC),
        prompt_tokens=2_000_000,
    )
    for _ in range(2):
        await priced.bus.request(
            subjects.report_usage(), UsageReports(reports=(report,)), Empty, timeout_s=10
        )
    by_kind = {line.group: line.cost_usd for line in (await costs(priced, by="kind")).lines}
    assert by_kind == {"chat": 6, "memory": 6}
    by_job = {line.group: line.cost_usd for line in (await costs(priced, by="job")).lines}
    assert by_job == {"job-1": 6, "": 6}
    of_events = await costs(priced, by="event", session=hand.spec.session_id)
    assert [line.cost_usd for line in of_events.lines] == [3, 3]
    assert all(line.group.isdigit() for line in of_events.lines)
    refused = await priced.get("/v1/cost", params={"by": "event"})
    assert refused.status_code == 400 and "session" in refused.json()["detail"]
    rows = await priced.database.fetch("SELECT * FROM choir_control.ledger")
    assert not [row for row in rows if CANARY in str(row) or "secret-name" in str(row)]


async def test_amounts_stay_when_agent_and_log_are_gone(priced: World) -> None:
    hand = await priced.agent()
    await hand.begin()
    hand.add(output(1_000_000, 0))
    await hand.flush()
    session_id = hand.spec.session_id
    await priced.database.execute("DELETE FROM choir_control.leases")
    await priced.stop()
    for table in ("session_events", "signals", "session_epochs", "sessions"):
        await priced.database.execute(f"DELETE FROM choir_control.{table}")
    config = json.loads(priced.settings.config_file.read_text())
    config["agents"] = {"renamed": config["agents"]["never"]}
    priced.settings.config_file.write_text(json.dumps(config))
    await priced.start()
    assert [line.group for line in (await costs(priced, by="agent")).lines] == ["main"]
    assert (await costs(priced, session=session_id)).total.cost_usd == 3


async def test_a_filled_database_of_an_earlier_version_keeps_its_tokens(postgres: str) -> None:
    async with Database(postgres, PASSWORD, size=2, application="test") as database:
        migrations = read_migrations(MIGRATIONS)
        before = [it for it in migrations if it.name < "0021"]
        await migrate(database, SCHEMA, before)
        await database.execute(
            "INSERT INTO choir_control.sessions (session_id, agent_id, status, epoch, head_hash, workspace,"
            " llm, dm, gateway) VALUES ('s', 'main', 'stopped', 1, '', 'w', 'l', 'd', 'g')"
        )
        payloads = [
            ("model_output", "edge", {"model": "m", "prompt_tokens": 10, "completion_tokens": 5}),
            ("model_output", "core:x", {"model": "m", "turn_id": "j", "prompt_tokens": 10**30}),
            ("model_output", "edge", {"model": "rehearsal", "prompt_tokens": 7}),
            ("memory_compacted", "session", {"model": "", "prompt_tokens": 3}),
            ("model_output", "edge", {"model": "a\x00b", "prompt_tokens": 3}),
            ("reply", "edge", {"text": "\x00"}),
        ]
        for rev, (kind, lane, payload) in enumerate(payloads, 1):
            await database.execute(
                "INSERT INTO choir_control.session_events VALUES ('s', $1, $2, $3, $4, '', '', '')",
                rev,
                lane,
                kind,
                json.dumps(payload),
            )
        await migrate(database, SCHEMA, migrations)
        rows = await database.fetch("SELECT * FROM choir_control.ledger ORDER BY entry_id")
    assert [
        (r["entry_id"], r["lane"], r["job_id"], r["prompt_tokens"], r["source"]) for r in rows
    ] == [
        ("s:1", "edge", None, 10, "unknown"),
        ("s:2", "core", "j", 10**12, "unknown"),
        ("s:3", "edge", None, 7, "free"),
    ]
