"""Two taps, the clock, and a restart in between, all at once: one decision, and at most one run (S12)."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import settings

from choir_common.clock import SystemClock
from choir_common.errors import Conflict
from choir_common.ids import new_id
from choir_common.metrics import Metrics
from choir_common.wire.messages import ButtonPress
from choir_common.wire.model import JsonObject
from choir_control.approvals.buttons import ANSWERS, REFUSED, ApprovalButtons
from choir_control.approvals.proposals.effect_store import EffectStore
from choir_control.approvals.proposals.worker import ProposalWorker
from choir_control.approvals.service import ApprovalExpiry, ApprovalService
from choir_control.approvals.store import Approval, Outcome, Verdict
from choir_control.log.metrics.meter import ControlMetrics, GaugeStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from tests.service.evolution.scene import SKILL, Scene, cut_off
from tests.support.approvals import (
    RecordingRedeployer,
    SilentOutbox,
    configuration_with_timeout,
)

IS_NIGHTLY = settings.get_current_profile_name() == "nightly"
RACES = 10_000 if IS_NIGHTLY else 120
# of each kind
BUTTON_RACES = 1_000 if IS_NIGHTLY else 15


@dataclass
class Ledger:
    """A kind of request whose effect is a line in a ledger, under the name its plan gives it."""

    lines: dict[str, set[str]] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        return {}

    async def make_plan(self, approval: Approval) -> JsonObject:
        await asyncio.sleep(0)
        return {"line": new_id("line")}

    async def apply(self, approval: Approval, plan: JsonObject) -> str:
        await asyncio.sleep(0)
        self.runs[approval.approval_id] += 1
        self.lines.setdefault(approval.approval_id, set()).add(str(plan["line"]))
        await asyncio.sleep(0)
        return "Done."

    async def plan_rollback(self, approval: Approval, plan: JsonObject) -> JsonObject:
        return plan


def _evolution(scene: Scene, ledger: Ledger) -> ProposalWorker:
    return ProposalWorker(
        approvals=scene.approvals,
        effects=EffectStore(scene.database),
        proposal_types={"skill": ledger},
        redeployer=RecordingRedeployer(result=""),  # type: ignore[arg-type]
        signal_locks=SignalLocks(),
        notifier=Notifier(),
        outbox=SilentOutbox(),
    )


def _expiry(scene: Scene, approvals: ApprovalService, clock: SystemClock) -> ApprovalExpiry:
    return ApprovalExpiry(
        scene.approvals,
        approvals=approvals,
        configuration=configuration_with_timeout(timedelta(0)),
        clock=clock,
    )


async def _decides(desk: ApprovalService, approval: str, verdict: Verdict) -> Verdict | None:
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
        expiry = _expiry(scene, scene.desk(), SystemClock())
        evolution = _evolution(scene, ledger)
        deciders: list[Verdict] = ["approved", "rejected", "approved"]
        dice.shuffle(deciders)
        async with asyncio.TaskGroup() as tasks:
            taps = [tasks.create_task(_decides(scene.desk(), approval, each)) for each in deciders]
            clock = tasks.create_task(expiry.expire_overdue()) if dice.random() < 0.5 else None
            cut = tasks.create_task(cut_off(evolution.run_pending(), dice.randrange(1, 40)))
            others = [tasks.create_task(evolution.run_pending()) for _ in range(2)]
        verdicts = [tap.result() for tap in taps if tap.result()]
        assert len(verdicts) + (clock.result() if clock else 0) == 1
        assert not any(other.cancelled() for other in (*others, cut))
        # the next start, whatever the last one came to
        await _evolution(scene, ledger).run_pending()
        done = await scene.found(approval)
        if verdicts == ["approved"]:
            assert done.state == "applied" and len(ledger.lines[approval]) == 1
            assert ledger.runs[approval] <= 2  # the second one finds that it is done
        else:
            assert done.state in ("rejected", "expired") and approval not in ledger.lines
    assert len(await scene.said()) == len(ledger.lines)


@dataclass
class ButtonRace:
    """One request with its buttons; `won` says, by hand, who was told that it decided."""

    scene: Scene
    approval: str
    yes: str
    no: str
    notice: int
    dice: random.Random
    won: dict[str, Outcome] = field(default_factory=dict)

    async def press(self, data: str, callback_id: str) -> None:
        """Press; each time to a choird of its own, as after a restart."""
        buttons = ApprovalButtons(
            self.scene.approvals,
            approvals=self.scene.desk(),
            configuration=self.scene.configuration,
            metrics=ControlMetrics(Metrics("test"), GaugeStore(self.scene.database).read_pending),
        )
        press = ButtonPress(
            gateway="console",
            user_id="operator",
            chat_id="operator",
            data=data,
            callback_id=callback_id,
        )
        told = await buttons.press(press)
        assert told.answer in (REFUSED, *ANSWERS.values())
        if told.answer != REFUSED:
            verdict: Verdict = "approved" if data == self.yes else "rejected"
            assert told.answer == ANSWERS[verdict]
            self.won[callback_id] = verdict

    async def decide(self, verdict: Verdict, by: str) -> None:
        """Decide at another door: choirctl's, or by a command in the conversation."""
        try:
            await self.scene.desk().decide(self.approval, verdict, by)
        except Conflict:
            return
        self.won[by] = verdict

    async def run_out(self) -> None:
        """Let the time run out."""
        clock, desk = SystemClock(), self.scene.desk()
        expiry = _expiry(self.scene, desk, clock)
        if await expiry.expire_overdue():
            self.won["timeout"] = "expired"


async def _asked(scene: Scene, dice: random.Random, number: int) -> ButtonRace:
    approval = await scene.ask("skill", {**SKILL, "reason": f"buttons {number}"})
    row = await scene.database.fetchrow(
        "SELECT outbox_id, buttons FROM choir_control.outbox JOIN choir_control.pending_approvals "
        "ON notice_id = outbox_id WHERE approval_id = $1",
        approval,
    )
    assert row is not None
    yes, no = (button["data"] for button in json.loads(row["buttons"]))
    return ButtonRace(scene, approval, yes, no, row["outbox_id"], dice)


async def _double_tap(race: ButtonRace) -> None:
    """Both buttons, twice each, and one press that the channel brings again."""
    taps = [(race.yes, "1"), (race.yes, "2"), (race.no, "3"), (race.no, "4"), (race.yes, "1")]
    race.dice.shuffle(taps)
    await asyncio.gather(*(race.press(*tap) for tap in taps))


async def _two_doors(race: ButtonRace) -> None:
    """A button, choirctl, and a command in the conversation."""
    deeds = [
        race.press(race.yes, "1"),
        race.decide("rejected", "operator"),
        race.decide("approved", "dm console"),
    ]
    race.dice.shuffle(deeds)
    await asyncio.gather(*deeds)


async def _last_moment(race: ButtonRace) -> None:
    """A tap in the instant in which the time is over."""
    deeds = [race.press(race.yes, "1"), race.run_out(), race.press(race.no, "2"), race.run_out()]
    race.dice.shuffle(deeds)
    await asyncio.gather(*deeds)


async def _restart_between(race: ButtonRace) -> None:
    """A press that choird's end cuts off at any wait; the channel brings it again to the next choird."""
    await asyncio.gather(
        cut_off(race.press(race.yes, "1"), race.dice.randrange(1, 30)),
        cut_off(race.press(race.no, "2"), race.dice.randrange(1, 30)),
        cut_off(race.run_out(), race.dice.randrange(1, 30))
        if race.dice.random() < 0.3
        else _rest(),
    )
    again = [race.press(race.yes, "1"), race.press(race.no, "2"), race.press(race.yes, "3")]
    race.dice.shuffle(again)
    await asyncio.gather(*again)


async def _rest() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [_double_tap, _two_doors, _last_moment, _restart_between])
async def test_buttons_doors_the_clock_and_restarts_make_one_decision_and_at_most_one_run(
    scene: Scene, kind: Callable[[ButtonRace], Awaitable[None]]
) -> None:
    ledger, dice, first = Ledger(), random.Random(11), Counter[str]()
    for number in range(BUTTON_RACES):
        race = await _asked(scene, dice, number)
        await kind(race)
        done = await scene.found(race.approval)
        # choird may have died between the clock's decision and anybody's hearing of it
        if not race.won:
            assert kind is _restart_between and done.decided_by == "timeout"
            race.won["timeout"] = "expired"
        [(who, verdict)] = race.won.items()
        assert (done.status, done.decided_by) == (
            verdict,
            who if who in ("operator", "timeout") else "dm console",
        )
        first[who] += 1
        await _check_what_was_told(scene, race)
        # a late decision gets the same neutral answer and changes nothing
        before = dict(race.won)
        await asyncio.gather(race.press(race.yes, "late"), race.press(race.no, "later"))
        assert race.won == before
        # choird ends in the middle of carrying it out, and the next one goes on
        await cut_off(_evolution(scene, ledger).run_pending(), dice.randrange(1, 40))
        await _evolution(scene, ledger).run_pending()
        runs = ledger.runs[race.approval]
        assert 1 <= runs <= 2 if verdict == "approved" else runs == 0
        assert len(ledger.lines.get(race.approval, ())) == (verdict == "approved")
    assert len(first) > 1, "one always won: that was no race"


async def _check_what_was_told(scene: Scene, race: ButtonRace) -> None:
    """The agent hears of one decision, the message is edited once, no button is left."""
    row = await scene.database.fetchrow(
        """
        SELECT (SELECT count(*) FROM choir_control.signals
                WHERE body ->> 'approval_id' = $1) AS signals,
               (SELECT count(*) FROM choir_control.outbox WHERE edits = $2) AS edits,
               (SELECT count(*) FROM choir_control.approval_nonces
                WHERE approval_id = $1 AND used_at IS NULL) AS live
        """,
        race.approval,
        race.notice,
    )
    assert row is not None and tuple(row.values()) == (1, 1, 0)


async def test_a_decision_before_a_restart_is_carried_out_after_it(scene: Scene) -> None:
    ledger, asked = Ledger(), await scene.approve("skill", SKILL)
    assert (await scene.found(asked)).state == "approved"
    assert await _evolution(scene, ledger).run_pending() == 1
    assert await _evolution(scene, ledger).run_pending() == 0
    assert ledger.runs[asked] == 1


async def test_what_was_approved_before_effects_were_kept_is_only_on_record(scene: Scene) -> None:
    approval = await scene.approve("skill", SKILL)
    await scene.database.execute("DELETE FROM choir_control.approval_effects")
    assert await _evolution(scene, Ledger()).run_pending() == 0
    assert (await scene.found(approval)).state == "approved"


async def test_a_call_is_the_agents_own_to_carry_out(scene: Scene) -> None:
    approval = await scene.approve("call", {"tool": "x"})
    assert await _evolution(scene, Ledger()).run_pending() == 0
    assert (await scene.found(approval)).state == "approved"


async def test_the_same_call_asked_again_is_the_same_request_though_the_world_has_changed(
    scene: Scene,
) -> None:
    first = await scene.ask("config_change", {"patch": {"event_window": 60}})
    scene.config_file.write_text(json.dumps({**scene.config(), "event_window": 61}))
    scene.calls -= 1
    assert await scene.ask("config_change", {"patch": {"event_window": 60}}) == first
