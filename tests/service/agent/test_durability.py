"""What could be noticed is durable first, and a fenced agent stops: GUARANTEES 2, 3 and 4."""

import asyncio
from pathlib import Path

import pytest

from choir_common.eventlog.chain import find_break
from choir_common.wire.config import Budgets
from choir_common.wire.rpc import StatusReport
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import agent_process, running_agent

TOUCH = {"name": "choir.exec", "arguments": {"command": "touch effect"}}
WRITE = {"name": "choir.fs.write", "arguments": {"path": "effect", "content": "x"}}


def turn_is_over(status: StatusReport) -> bool:
    """Tell whether the edge lane is idle after a call of its model."""
    tokens = status.budget_remaining["total_session_tokens"]
    return status.state == "EDGE_IDLE" and tokens < Budgets().total_session_tokens


def score(*steps: dict[str, object]) -> Score:
    return Score.model_validate({"otherwise": list(steps)})


@pytest.mark.parametrize("call", [TOUCH, WRITE], ids=["exec", "write"])
async def test_an_effect_waits_until_its_commitment_is_durable(call: dict[str, object]) -> None:
    async with run_rehearsal(score({"call": call}, {"say": "done"})) as model:
        async with run_control(model) as control, running_agent(control):
            await control.until(lambda: len(control.events) == 1)
            control.acknowledging.clear()
            await control.say("go")
            await asyncio.sleep(0.6)
            assert not (control.workspace / "effect").exists()
            assert "tool_call_committed" not in control.types()
            control.acknowledging.set()
            await control.replied()
            assert (control.workspace / "effect").exists()


async def test_what_gathers_while_a_heartbeat_is_out_goes_with_the_next_one() -> None:
    async with run_rehearsal(score({"say": "hi"})) as model, run_control(model) as control:
        async with running_agent(control):
            await control.until(lambda: len(control.events) == 1)
            control.acknowledging.clear()
            await control.say("hello")
            await control.until(lambda: len(control.heartbeats[-1].patches) > 0)
            await control.until(lambda: any(turn_is_over(status) for status in control.statuses))
            control.acknowledging.set()
            await control.replied()
    carried = [len(beat.patches) for beat in control.heartbeats if beat.patches]
    assert carried == [1, 1, 2]


async def test_lost_answers_and_refusals_of_heartbeats_leave_one_unbroken_log() -> None:
    steps = score({"call": TOUCH}, {"say": "done"})
    async with run_rehearsal(steps) as model, run_control(model) as control:
        control.lose_answers, control.refuse_next = 2, 2
        async with running_agent(control):
            await control.say("go")
            control.lose_answers = 2
            await control.replied()
            control.refuse_next = 2
            await control.say("again", "inb_2")
            await control.replied(2)
    assert find_break(control.events) is None
    assert len(control.replies()) == 2


async def test_heartbeats_go_on_when_nothing_happens() -> None:
    async with run_rehearsal() as model, run_control(model) as control, running_agent(control):
        await control.until(lambda: len(control.events) == 1)
        seen = len(control.heartbeats)
        await control.until(lambda: len(control.heartbeats) >= seen + 3)
        assert control.heartbeats[-1].patches == ()


async def test_a_fenced_agent_stops_at_once_and_its_command_dies() -> None:
    command = "echo $$ > pid; mv pid begun; sleep 300"
    sleep = {"name": "choir.exec", "arguments": {"command": command}}
    async with run_rehearsal(score({"call": sleep}, {"say": "x"})) as model:
        async with run_control(model) as control, running_agent(control) as agent:
            await control.say("go")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            written = len(control.events)
            await control.fence()
            async with asyncio.timeout(60):
                assert await agent == 3
                pid = (control.workspace / "begun").read_text().strip()
                while Path(f"/proc/{pid}").exists():
                    await asyncio.sleep(0.02)
            assert len(control.events) == written


async def test_the_process_exits_with_3_when_it_is_fenced() -> None:
    async with run_rehearsal() as model, run_control(model) as control:
        async with agent_process(control) as process:
            await control.until(lambda: len(control.events) == 1)
            await control.fence()
            async with asyncio.timeout(60):
                assert await process.wait() == 3


async def test_an_agent_of_an_old_epoch_is_not_let_in() -> None:
    async with run_rehearsal() as model, run_control(model) as control:
        async with agent_process(control) as process:
            # its boot line is read, its hello still to come
            control.epoch = 2
            async with asyncio.timeout(60):
                assert await process.wait() == 3
    assert control.events == []
