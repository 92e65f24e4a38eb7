"""Who, in which session and lane: what each line of an agent's log says of itself."""

import json
from typing import Any

from choir_agent.lanes.core_states import FINAL_STATES
from choir_common.wire.events import Reply
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import SESSION, ControlStandIn, run_control
from tests.service.agent.running_agent import agent_process

READ = {"name": "choir.fs.read", "arguments": {"path": "nothing.txt"}}
SCORE = {
    "rules": [{"when": {"lane": "core"}, "then": [{"call": READ}, {"say": "done"}]}],
    "otherwise": [{"call": READ}, {"say": "read"}],
}


def reported(control: ControlStandIn) -> bool:
    return any(isinstance(p, Reply) and p.kind == "report" for p in control.payloads())


async def test_lines_of_a_turn_a_job_and_neither_say_whose_they_are() -> None:
    async with (
        run_rehearsal(Score.model_validate(SCORE)) as model,
        run_control(model) as control,
        agent_process(control) as process,
    ):
        await control.say("read it", "inb_1")
        await control.replied()
        await control.say("#spawn reader: read it", "inb_2")
        await control.until(lambda: reported(control), 60)
        process.terminate()
        await process.wait()
        text = (control.root / "agent.log").read_text()

    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert all(line["source"] == "agent.main" for line in lines)
    assert all(line["session"] == SESSION for line in lines)
    lanes = {(line["message"], line.get("lane")) for line in lines}
    expected = {
        ("session opened", None),
        ("tool call ended", "edge"),
        ("turn closed", "edge"),
        ("tool call ended", "core:reader"),
        ("a core job ended", "core:reader"),
    }
    assert expected <= lanes, lanes
    assert ("a core job ended", "edge") not in lanes


async def test_each_model_call_failed_heartbeat_and_change_of_a_lane_has_its_line() -> None:
    async with (
        run_rehearsal(Score.model_validate(SCORE)) as model,
        run_control(model) as control,
        agent_process(control) as process,
    ):
        control.refuse_next = 2
        await control.say("#spawn reader: read it", "inb_1")
        await control.until(lambda: reported(control), 60)
        process.terminate()
        await process.wait()
        text = (control.root / "agent.log").read_text()
        outputs = control.types().count("model_output")

    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    calls = [line for line in lines if line["message"] == "model call ended"]
    assert len([line for line in calls if line["purpose"] == "think"]) == outputs
    assert {line["lane"] for line in calls} == {"edge", "core:reader"}
    assert all(line["prompt_tokens"] > 0 and line["duration_ms"] > 0 for line in calls)
    assert all(line["model"] == "rehearsal" for line in calls)
    failed = [line for line in lines if line["message"] == "heartbeat failed; retrying"]
    assert len(failed) == 2 and all(line["level"] == "warning" for line in failed)
    (again,) = (line for line in lines if line["message"] == "heartbeats are acknowledged again")
    assert again["failures"] == 2
    moves = {
        (line["lane"], line["before"], line["state"])
        for line in lines
        if line["message"] == "lane state changed"
    }
    assert ("edge", "EDGE_IDLE", "EDGE_CONTEXT_READY") in moves
    assert ("edge", "EDGE_CONTEXT_READY", "EDGE_REASONING") in moves
    assert any(lane == "core:reader" and state in FINAL_STATES for lane, _, state in moves)


async def test_a_model_call_that_failed_has_its_line_with_the_reason() -> None:
    broken = {"otherwise": [{"error": {"status": 404, "times": 0}, "say": "never"}]}
    async with (
        run_rehearsal(Score.model_validate(broken)) as model,
        run_control(model) as control,
        agent_process(control),
    ):
        await control.say("hello")
        await control.replied()
        text = (control.root / "agent.log").read_text()
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    (failed,) = (line for line in lines if line["message"] == "model call failed")
    assert (failed["lane"], failed["code"], failed["level"]) == ("edge", "model_failed", "warning")
    assert "404" in failed["error"]


async def test_a_heartbeat_that_is_refused_for_good_has_its_line() -> None:
    async with (
        run_rehearsal(Score.model_validate(SCORE)) as model,
        run_control(model) as control,
        agent_process(control) as process,
    ):
        await control.until(lambda: bool(control.heartbeats), 60)
        control.epoch += 1  # another agent has taken the session over
        await process.wait()
        text = (control.root / "agent.log").read_text()
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    (refused,) = (
        line for line in lines if line["message"] == "heartbeat rejected; the session is over"
    )
    assert (refused["code"], refused["level"]) == ("fenced", "warning")
