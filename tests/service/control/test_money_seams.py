"""What is spent stays known, without any content, whatever happens to the conversation that it was for."""

from decimal import Decimal

import orjson
import pytest

from choir_common.wire.money import CostGroup, CostReport
from tests.service.control.test_continuity import RecordingModel
from tests.service.control.test_forgetting import home, make_memory, model, until_erased
from tests.service.control.test_incognito_forgetting import carry_out, current
from tests.service.control.test_ledger import apply, change_config, costs, output
from tests.service.control.test_memory_modes import CANARY, ask, switch, tables_with
from tests.service.control.world import World

__all__ = ["home", "make_memory", "model"]
pytestmark = pytest.mark.timeout(600)
CALL = Decimal("0.00002")
"""What a call of the recording model costs: twenty tokens at a dollar for a million."""
OLD = """
INSERT INTO choir_control.ledger (entry_id, agent_id, session_id, job_id, lane, kind, name, model, at, day,
    prompt_tokens, cost_usd, computed_usd, source)
SELECT 'old:' || n, 'main', $1, 'job_1', 'core', 'chat', 'default', 'm', now() - $2 * interval '1 day',
       (now() - $2 * interval '1 day')::date, 1000, CASE WHEN n > 1 THEN 0.25 END,
       CASE WHEN n > 1 THEN 0.25 END, CASE WHEN n > 1 THEN 'config' ELSE 'unknown' END
FROM generate_series(1, 5) AS n
"""
GRANT = """
INSERT INTO choir_control.budget_grants (session_id, rev, agent_id, budget, amount_usd, at)
VALUES ('gone', 1, 'main', 'usd_per_day', 1, now() - interval '500 days')
"""


@pytest.mark.nightly  # test_forgetting.py erases and keeps the calls, test_memory_modes.py erases, too
async def test_reset_forgetting_and_incognito_leave_the_amounts_and_no_content(
    home: World, model: RecordingModel
) -> None:
    change_config(home, models__default__prices={"input": 1, "output": 1})
    await apply(home)
    await ask(home, f"my secret is {CANARY}")
    local = await current(home)
    await switch(home, "incognito")
    private = await current(home)
    await ask(home, f"my other secret is {CANARY}")
    await carry_out(home, "reset", kind="all")
    await until_erased(home, private)
    await ask(home, "and now?")
    await switch(home, "local")
    since = await home.database.fetchval(
        "SELECT started_at FROM choir_control.sessions WHERE session_id = $1", local
    )
    await carry_out(home, "memory/forget", since=since.isoformat())
    await until_erased(home, local)
    await ask(home, "what do you know?")
    assert await tables_with(home.database, CANARY) == []

    report = await costs(home, by="session")
    assert (report.total.calls, report.total.cost_usd) == (
        len(model.prompts),
        CALL * len(model.prompts),
    )
    # ids only, also of the sessions that are erased
    assert {local, private} <= {line.group for line in report.lines}
    exported = await home.get("/v1/agents/main/memory/export")
    assert exported.is_success and "cost" not in exported.text and CANARY not in exported.text
    records = [orjson.loads(line) for line in exported.content.splitlines()][1:-1]
    piece = {"import_id": "again", "first": 0, "total": len(records), "records": records}
    again = await home.post("/v1/agents/main/memory/import", json=piece)
    assert again.is_success, again.text
    assert (await costs(home, by="session")).total == report.total


async def test_old_entries_become_sums_of_a_day_and_open_sessions_keep_theirs(world: World) -> None:
    hand = await world.agent()
    await hand.begin()
    hand.add(output(10, 0))
    await hand.flush()
    for age in (500, 450, 300):
        await world.database.execute(OLD.replace("old:", f"{age}:"), f"ended-{age}", age)
    await world.database.execute(OLD, hand.spec.session_id, 500)
    await world.database.execute(GRANT)
    groups: tuple[CostGroup, ...] = ("day", "agent", "model", "kind")
    before = {group: await everything(world, group) for group in groups}
    assert world.control is not None
    for _ in range(2):
        await world.control.services.log.retention.sweep()
        for group, report in before.items():
            assert await everything(world, group) == report, "the sums are the same"
    sessions = {line.group: line.calls for line in (await everything(world, "session")).lines}
    assert sessions == {"ended-300": 5, hand.spec.session_id: 6, "": 10}
    rows = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.ledger WHERE entry_id LIKE 'day:%'"
    )
    assert rows == 4, "known and unknown costs of two days"
    assert not await world.database.fetchval("SELECT count(*) FROM choir_control.budget_grants")
    # another call of a day that is summed up already
    await world.database.execute(OLD.replace("old:", "late:"), "ended-450", 450)
    await world.control.services.log.retention.sweep()
    total = (await everything(world, "day")).total
    assert (total.calls, total.cost_usd) == (26, 5)


async def everything(world: World, group: CostGroup) -> CostReport:
    return await costs(world, by=group, since="2000-01-01")
