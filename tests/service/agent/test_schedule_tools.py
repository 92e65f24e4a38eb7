"""`choir.schedule.create` tells the host which message it answers, whatever its model says."""

from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent

TEA: JsonObject = {"kind": "remind", "text": "tea", "timing": "in", "value": "5m"}


def answer(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"schedule_id": 1, "state": "active"}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


async def test_the_host_learns_which_message_a_schedule_answers_and_not_from_the_model() -> None:
    names = ("choir.schedule.create", "choir.schedule.create", "choir.schedule.list")
    inputs: tuple[JsonObject, ...] = (TEA, {**TEA, "inbox_id": "inb_other"}, {})
    calls = [
        {"call": {"name": name, "arguments": input_}}
        for name, input_ in zip(names, inputs, strict=True)
    ]
    score = Score.model_validate({"rules": [], "otherwise": [*calls, {"say": "Done."}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = answer
        async with running_agent(control):
            await control.say("remind me of the tea", "inb_1")
            await control.replied()
        sent = [c for c in control.host_calls if c.tool_name.startswith("choir.schedule.")]
    assert [(call.tool_name, call.input) for call in sent] == [
        ("choir.schedule.create", {**TEA, "inbox_id": "inb_1"}),
        ("choir.schedule.list", {}),
    ]
