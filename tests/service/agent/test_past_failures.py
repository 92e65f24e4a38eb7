"""When a tool fails the agent asks what it went through with it before, and the model reads it there."""

from choir_common.eventlog.chain import find_break
from choir_common.eventlog.tool_results import SEEN_BEFORE
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, HostTool, run_control
from tests.service.agent.running_agent import running_agent

CASE: JsonObject = {"outcome": "resolved", "helped": ["choir.exec ./configure"]}
FAILING = {"name": "choir.exec", "arguments": {"command": "echo no rule >&2; exit 2"}}


def remember(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"hints": [CASE]}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


def forget(request: HostToolRequest) -> HostToolResponse:
    return HostToolResponse(call_id=request.call_id, status="success", output={"hints": []})


def be_away(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"code": "unavailable", "message": "memory is away"}
    return HostToolResponse(call_id=request.call_id, status="error", output=output)


async def use(
    call: dict[str, object], host_tool: HostTool
) -> tuple[ToolResultCommitted, ControlStandIn]:
    """Have the agent make one call; return its result."""
    score = Score.model_validate({"rules": [], "otherwise": [{"call": call}, {"say": "done"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = host_tool
        async with running_agent(control):
            await control.say("go")
            await control.replied()
        (result,) = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
        assert find_break(control.events) is None
        return result, control


async def test_a_failure_that_is_known_is_told_beside_its_own_words() -> None:
    result, control = await use(FAILING, remember)
    assert (result.status, result.output["exit_code"]) == ("success", 2)
    assert isinstance(before := result.output[SEEN_BEFORE], dict)
    assert before["cases"] == [CASE]
    (asked,) = control.host_calls
    assert asked.tool_name == "choir.memory.hints"
    assert asked.input == {"tool": "choir.exec", "said": "exit code 2: no rule"}


async def test_a_failure_that_is_new_or_cannot_be_asked_about_stays_as_it_is() -> None:
    for host_tool in (forget, be_away):
        result, control = await use(FAILING, host_tool)
        assert result.output["exit_code"] == 2 and SEEN_BEFORE not in result.output
        assert len(control.host_calls) == 1


async def test_a_call_that_works_asks_nothing() -> None:
    call = {"name": "choir.exec", "arguments": {"command": "true"}}
    result, control = await use(call, remember)
    assert result.output["exit_code"] == 0
    assert control.host_calls == []
