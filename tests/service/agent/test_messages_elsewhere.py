"""`choir.message.send` to another conversation: free for the same person, a question for all others."""

import json
from typing import Any

import pytest

from choir_common.wire.config import AgentConversation
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.policy import AgentPolicy, PolicyRule
from tests.service.agent.control_stand_in import DM, ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.test_conversations import answers, of, streaming_agent, texts
from tests.service.agent.test_parked_turns import asked, decide
from tests.support.streaming_model import StreamedCall, run_streaming

SERVED = tuple(
    AgentConversation(name=name, person=person)
    for name, person in ((DM, "ada"), ("phone", "ada"), ("bob", "bob"), ("family", ""))
)


def serve(control: ControlStandIn, *rules: PolicyRule) -> None:
    """Give the agent four conversations: two of ada, one of bob, and a group."""
    control.bound = {"conversations": SERVED, "policy": AgentPolicy(rules=rules)}
    control.config_version += 1


def send(call: StreamedCall, **arguments: Any) -> None:
    """Answer a request with a call of the tool."""
    function = {"name": "choir_message_send", "arguments": json.dumps(arguments)}
    calls = [{"index": 0, "id": "their_1", "type": "function", "function": function}]
    call.write({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
    call.end()


def argument(call: StreamedCall) -> Any:
    tools = {tool["function"]["name"]: tool["function"] for tool in call.body["tools"]}
    return tools["choir_message_send"]["parameters"]["properties"].get("conversation")


def results(control: ControlStandIn) -> list[ToolResultCommitted]:
    return [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]


async def test_a_message_reaches_another_conversation_of_the_same_person_and_its_lane() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        serve(control)
        async with running_agent(control):
            await control.say("tell my phone")
            call = await model.next_call()
            assert argument(call)["enum"] == ["phone", "bob", "family"]
            assert "bob is bob's" in argument(call)["description"]
            send(call, text="the door is open", conversation="phone")
            (await model.next_call()).end("told")
            await control.replied()
            await control.say("what door?", "inb_2", dm="phone")
            call = await model.next_call()
            call.end("the front door")
            await control.replied(2)
    assert not control.approvals
    sent, answered = of(control, "phone")
    assert (sent.kind, sent.text) == ("message", f"[From ada, {DM}]\nthe door is open")
    assert [event.lane for event in control.events if event.payload.get("from_lane")] == [
        "edge:phone"
    ]
    assert [reply.text for reply in of(control, DM)] == ["told"]
    quoted, question = texts(call)
    assert "> the door is open" in quoted and quoted.startswith("[Choir] You sent")
    assert question == "what door?" and answered.text == "the front door"


@pytest.mark.parametrize(
    ("target", "decision"), [("bob", "approved"), ("bob", "rejected"), ("family", "approved")]
)
async def test_a_message_to_somebody_else_or_a_group_waits_for_a_persons_decision(
    target: str, decision: str
) -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        serve(control)
        async with running_agent(control):
            await control.say("tell them", dm="phone")
            send(await model.next_call(), text="dinner is ready", conversation=target)
            [call_id] = await asked(control)
            assert not control.replies()
            await decide(control, call_id, decision)
            (await model.next_call()).end("done")
            await control.replied()
    request = control.approval_requests[call_id]
    assert request.dm == "phone" and request.payload["input"] == {
        "text": "dinner is ready",
        "conversation": target,
    }
    wanted = ["[From ada, phone]\ndinner is ready"] if decision == "approved" else []
    assert [reply.text for reply in of(control, target)] == wanted
    assert answers(control, "phone") == ["inb_1"]


async def test_a_rule_of_the_owner_lets_messages_to_a_conversation_pass() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        serve(control, PolicyRule(action="allow", recipients=("dm:bob",)))
        async with running_agent(control):
            await control.say("tell bob")
            send(await model.next_call(), text="hello", conversation="bob")
            (await model.next_call()).end("told")
            await control.replied()
    assert not control.approvals and len(of(control, "bob")) == 1


async def test_unknown_conversations_and_files_for_somebody_else_are_refused_without_a_question() -> (
    None
):
    async with run_streaming() as model, run_control(model.endpoint) as control:
        serve(control)
        async with running_agent(control):
            await control.say("tell everybody")
            send(await model.next_call(), text="hello", conversation="nobody")
            files = [{"path": ".choirtmp/send/secrets.txt"}]
            send(await model.next_call(), files=files, conversation="bob")
            (await model.next_call()).end("I could not")
            await control.replied()
    assert [result.output["code"] for result in results(control)] == [
        "unknown_conversation",
        "files_stay_with_person",
    ]
    assert not control.approvals and len(control.replies()) == 1


@pytest.mark.parametrize("last", ["tool_call_committed", "reply"])
async def test_a_message_to_another_conversation_comes_once_over_a_crash(last: str) -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        serve(control)
        async with running_agent(control):
            await control.say("tell my phone")
            send(await model.next_call(), text="once", conversation="phone")
            await model.next_call()
        control.crash_and_cut(control.types().index(last) + 1)
        async with running_agent(control):
            (await model.next_call()).end("told")
            await control.replied()
    assert len(of(control, "phone")) == 1 and answers(control, DM) == ["inb_1"]


async def test_an_agent_with_one_conversation_is_not_offered_the_argument() -> None:
    async with streaming_agent() as (model, control):
        await control.say("hello")
        call = await model.next_call()
        assert argument(call) is None
        call.end("hello")
        await control.replied()
