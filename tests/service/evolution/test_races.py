"""Two taps, the clock, and a restart in between, all at once: one decision, and at most one run (S12)."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import settings

from choir_common.clock import SystemClock
from choir_common.errors import Conflict
from choir_common.ids import new_id
from choir_common.wire.json import JsonObject
from choir_control.approvals.decide import Desk
from choir_control.approvals.expire import Expiry
from choir_control.approvals.store import Approval, Verdict
from choir_control.evolution.carry_out import Evolution
from choir_control.evolution.store import EffectStore
from tests.service.evolution.scene import SKILL, Scene, cut_off

RACES = 10_000 if settings.get_current_profile_name() == "nightly" else 120


@dataclass
class Ledger:
    """A kind of request whose effect is a line in a ledger, under the name its plan gives it."""

    lines: dict[str, set[str]] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)

    async def basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        return {}

    async def plan(self, asked: Approval) -> JsonObject:
        await asyncio.sleep(0)
        return {"line": new_id("line")}

    async def carry_out(self, asked: Approval, plan: JsonObject) -> str:
        await asyncio.sleep(0)
        self.runs[asked.approval_id] += 1
        self.lines.setdefault(asked.approval_id, set()).add(str(plan["line"]))
        await asyncio.sleep(0)
        return "Done."

    async def plan_back(self, asked: Approval, plan: JsonObject) -> JsonObject:
        return plan


def _evolution(scene: Scene, ledger: Ledger) -> Evolution:
    lock = asyncio.Lock()

    async def settle(asked: Approval) -> str:
        return ""

    return Evolution(
        scene.approvals,
        EffectStore(scene.database),
        {"skill": ledger},
        lambda _: lock,
        lambda _: None,
        lambda _: None,
        settle,
    )


async def _decides(desk: Desk, approval: str, verdict: Verdict) -> Verdict | None:
    try:
        await desk.decide(approval, verdict, "operator")
    except Conflict:
        return None
    return verdict


async def test_many_deciders_the_clock_and_restarts_make_one_decision_and_at_most_one_run(
    scene: Scene,
) -> None:
    ledger, dice = Ledger(), random.Random(7)
    for number in range(RACES):
        approval = await scene.ask("skill", {**SKILL, "reason": f"race {number}"})
        expiry = Expiry(scene.approvals, scene.desk(), lambda: timedelta(0), SystemClock())
        evolution = _evolution(scene, ledger)
        deciders: list[Verdict] = ["approved", "rejected", "approved"]
        dice.shuffle(deciders)
        async with asyncio.TaskGroup() as tasks:
            taps = [tasks.create_task(_decides(scene.desk(), approval, each)) for each in deciders]
            clock = tasks.create_task(expiry.reject_overdue()) if dice.random() < 0.5 else None
            cut = tasks.create_task(cut_off(evolution.work(), dice.randrange(1, 40)))
            others = [tasks.create_task(evolution.work()) for _ in range(2)]
        verdicts = [tap.result() for tap in taps if tap.result()]
        assert len(verdicts) + (clock.result() if clock else 0) == 1
        assert not any(other.cancelled() for other in (*others, cut))
        # the next start, whatever the last one came to
        await _evolution(scene, ledger).work()
        done = await scene.found(approval)
        if verdicts == ["approved"]:
            assert done.state == "applied" and len(ledger.lines[approval]) == 1
            assert ledger.runs[approval] <= 2  # the second one finds that it is done
        else:
            assert done.state in ("rejected", "timed_out") and approval not in ledger.lines
    assert len(await scene.said()) == len(ledger.lines)


async def test_a_decision_before_a_restart_is_carried_out_after_it(scene: Scene) -> None:
    ledger, asked = Ledger(), await scene.approve("skill", SKILL)
    assert (await scene.found(asked)).state == "approved"
    assert await _evolution(scene, ledger).work() == 1
    assert await _evolution(scene, ledger).work() == 0
    assert ledger.runs[asked] == 1


async def test_what_was_approved_before_effects_were_kept_is_only_on_record(scene: Scene) -> None:
    approval = await scene.approve("skill", SKILL)
    await scene.database.execute("DELETE FROM choir_control.approval_effects")
    assert await _evolution(scene, Ledger()).work() == 0
    assert (await scene.found(approval)).state == "approved"


async def test_a_call_is_the_agents_own_to_carry_out(scene: Scene) -> None:
    approval = await scene.approve("call", {"tool": "x"})
    assert await _evolution(scene, Ledger()).work() == 0
    assert (await scene.found(approval)).state == "approved"


async def test_the_same_call_asked_again_is_the_same_request_though_the_world_has_changed(
    scene: Scene,
) -> None:
    first = await scene.ask("config_change", {"patch": {"event_window": 60}})
    scene.config_file.write_text(json.dumps({**scene.config(), "event_window": 61}))
    scene.calls -= 1
    assert await scene.ask("config_change", {"patch": {"event_window": 60}}) == first
