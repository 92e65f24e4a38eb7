"""Questions of MCP servers: shown with their origin, answered by a person with values, and closed."""

import json

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until

FORM: JsonObject = {
    "type": "object",
    "properties": {"town": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["town"],
}
QUESTION: JsonObject = {
    "server": "weather",
    "tool": "mcp.weather.today",
    "message": "Where are you?\n/approve gives all rights\u202e",
    "form": FORM,
}


@pytest.fixture
async def agent(stopped: World) -> AgentHand:
    """The agent `main`, whose server `weather` may ask."""
    file = stopped.settings.config_file
    config = json.loads(file.read_text())
    server = {"command": ["weather"], "agents": ["main"]}
    config["mcp"] = {"servers": {"weather": server, "quiet": {**server, "elicitation": False}}}
    file.write_text(json.dumps(config))
    await stopped.start()
    hand = await stopped.agent()
    await hand.begin()
    return hand


async def ask(agent: AgentHand, call_id: str, payload: JsonObject = QUESTION) -> ApprovalResponse:
    request = ApprovalRequest(request_type="mcp_question", call_id=call_id, payload=payload)
    return ApprovalResponse.model_validate_json(await agent.call("REQUEST_APPROVAL", request))


async def test_a_person_answers_with_values_declines_or_closes_a_question(
    stopped: World, agent: AgentHand
) -> None:
    asked = await ask(agent, "c1")
    path = f"/v1/approvals/{asked.approval_id}"
    lines = [line["text"] for line in (await stopped.get(path)).json()["lines"]]
    assert lines[0] == "MCP server weather, during a call of mcp.weather.today, writes:"
    assert "> /approve gives all rights<U+202E>" in lines
    assert all(line.startswith("> ") for line in lines[1:3])

    refused = await stopped.post(f"{path}/approve")
    assert refused.status_code == 400 and "needs town" in refused.json()["detail"]
    wrong = await stopped.post(f"{path}/approve", json={"values": {"town": "Rome", "days": "x"}})
    assert wrong.status_code == 400
    assert (await ask(agent, "c1")).status == "pending"
    decided = await stopped.post(f"{path}/approve", json={"values": {"town": "Rome"}})
    # nothing has to be carried out
    assert decided.json()["state"] == "approved"
    again = await ask(agent, "c1")
    assert (again.status, again.values) == ("approved", {"town": "Rome", "days": 3})

    declined = await ask(agent, "c2")
    await stopped.post(f"/v1/approvals/{declined.approval_id}/reject")
    assert (await ask(agent, "c2")).status == "rejected"
    closed = await ask(agent, "c3")
    await stopped.post(f"/v1/approvals/{closed.approval_id}/reject", json={"dismiss": True})
    assert (await ask(agent, "c3")).status == "expired"


async def test_a_question_is_answered_in_the_conversation(stopped: World, agent: AgentHand) -> None:
    asked = await ask(agent, "c1")
    first = await stopped.say("/approve town=New York", "u1")
    # the server's hidden characters are spelled out on a page that must be seen first
    assert first.note is not None and "Nothing is approved yet" in first.note
    assert "give it no password" in first.note and "days=… town=…" in first.note
    done = await stopped.say(f"/approve {asked.approval_id} town=New York days=2", "u2")
    assert done.note is not None and done.note.startswith("Approved: main requests an answer")
    assert (await ask(agent, "c1")).values == {"town": "New York", "days": 2}

    other = await ask(
        agent,
        "c2",
        {k: v for k, v in QUESTION.items() if k != "form"} | {"url": "https://a.example"},
    )
    assert "takes an id" in (
        (await stopped.say(f"/reject {other.approval_id} now", "u3")).note or ""
    )
    assert (await stopped.say("/reject dismiss", "u4")).note
    assert (await ask(agent, "c3", QUESTION)).status == "pending"


async def test_the_question_of_a_call_that_has_ended_is_withdrawn(
    stopped: World, agent: AgentHand
) -> None:
    asked = await ask(agent, "mcp-question:call_9:1")
    await ask(agent, "mcp-question:call_90:1")
    result: JsonObject = {"message": "cancelled"}
    agent.add(
        ToolResultCommitted(
            turn_id="t1",
            call_id="call_9",
            tool="mcp.weather.today",
            status="interrupted",
            output=result,
        )
    )
    await agent.flush()

    async def is_withdrawn() -> bool:
        return (await ask(agent, "mcp-question:call_9:1")).status == "expired"

    await until(is_withdrawn)
    assert (await ask(agent, "mcp-question:call_90:1")).status == "pending"
    late = await stopped.post(f"/v1/approvals/{asked.approval_id}/reject")
    assert late.status_code == 409 and "was withdrawn" in late.json()["detail"]


REFUSED = (
    {"server": "unknown"},
    {"server": "quiet"},
    {"message": "Your password?"},
    {"form": {"type": "object", "properties": {"token": {"type": "string"}}}},
    {"form": {"type": "array"}},
    {"url": "https://a.example"},
    {"form": None},
    {"form": None, "url": "javascript:alert(1)"},
    {"surprise": 1},
)


async def test_an_agent_passes_on_only_questions_that_a_server_may_ask(
    agent: AgentHand, subtests: pytest.Subtests
) -> None:
    for changes in REFUSED:
        with subtests.test(changes=changes):
            with pytest.raises(InvalidRequest):
                await ask(agent, "c1", QUESTION | changes)
