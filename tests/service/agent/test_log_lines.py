"""Who, in which session and lane: what each line of an agent's log says of itself (spec 22.2)."""

import json
from typing import Any

from choir_common.wire.events import Reply
from choir_local.rehearsal.run import run_rehearsal
from choir_local.rehearsal.score import Score
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
        ("session open", None),
        ("a call ended", "edge"),
        ("turn closed", "edge"),
        ("a call ended", "core:reader"),
        ("a core job ended", "core:reader"),
    }
    assert expected <= lanes, lanes
    assert ("a core job ended", "edge") not in lanes
