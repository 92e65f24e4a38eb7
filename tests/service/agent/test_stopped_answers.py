"""A message or a cancel stops the answer that is being written, and what was seen of it stays."""

import asyncio
from decimal import Decimal

import pytest

from choir_agent.lanes import edge_lane
from choir_common.wire.config import Budgets
from choir_common.wire.events import Cancelled
from choir_common.wire.money import MoneyReserved
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import CancelSignal, MessageSender
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.streamed_answers import CANARY, outputs, seen, wire
from tests.support.streaming_model import StreamingModel, run_streaming


async def test_a_new_message_stops_the_answer_and_what_was_seen_stays() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me", "inb_1")
            first = await model.next_call()
            first.say("Once upon a time ")
            await seen(control, "Once upon a time ")
            await control.say("no, something short", "inb_2")
            # the connection to the provider is closed at once, not when the answer ends
            async with asyncio.timeout(10):
                await first.left.wait()
            second = await model.next_call()
            second.end("Short.")
            replies = await control.replied(2)
    assert [(one.text, one.kind, one.answers) for one in replies] == [
        ("Once upon a time\n\n[I stopped here because of your next message.]", "answer", "inb_1"),
        ("Short.", "answer", "inb_2"),
    ]
    # the model knows what it had said
    spoken = [one["content"] for one in second.body["messages"] if one["role"] == "assistant"]
    assert spoken == [replies[0].text]
    interrupted = outputs(control)[0]
    assert (interrupted.finish_reason, interrupted.text) == ("interrupted", replies[0].text)
    assert interrupted.prompt_tokens > 0


async def test_in_a_group_somebody_elses_message_stops_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon(monkeypatch)
    ada = MessageSender(name="ada", role="owner", display_name="Ada L.")
    eve = MessageSender(role="guest", display_name="Eve")
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me", "inb_1", sender=ada)
            first = await model.next_call()
            await control.say("me, too", "inb_2", sender=eve)
            first.say("Once upon ")
            await seen(control, "Once upon ")
            await control.say("and me", "inb_3", sender=ada)
            first.end("a time.")
            second = await model.next_call()
            second.end("Eve.")
            (await model.next_call()).end("Ada.")
            replies = await control.replied(3)
    assert [one.text for one in replies] == ["Once upon a time.", "Eve.", "Ada."]
    spoken = [one["content"] for one in second.body["messages"] if one["role"] == "user"]
    assert spoken == ['[from "Ada L." (ada, owner)]\ntell me', '[from "Eve" (guest)]\nme, too']


async def test_no_cut_of_a_secret_is_in_what_is_stored_of_a_stopped_answer() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.secret, control.secrets = "key", {"key": CANARY}
        async with running_agent(control):
            await control.say("what is the key?")
            call = await model.next_call()
            call.say("It is ", CANARY[:-3])
            await seen(control, "It is ")
            await control.tell(CancelSignal())
            reply = (await control.replied())[0]
    assert reply.text == "It is\n\n[I stopped here, as you asked.]"
    assert (
        "sk-" not in b"".join(event.model_dump_json().encode() for event in control.events).decode()
    )


async def test_a_stopped_answer_settles_its_reservation_of_money() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.budgets = Budgets(usd_per_day=Decimal(5))
        control.host_tool = reserve_always
        async with running_agent(control):
            await control.say("tell me")
            call = await model.next_call()
            call.say("Once upon")
            await seen(control, "Once upon")
            await control.tell(CancelSignal())
            await control.replied()
    (reserved,) = control.host_calls
    usage = outputs(control)[0].usage
    assert usage is not None and not usage.counted
    assert usage.reservation == f"reserved {reserved.call_id}"


def reserve_always(request: HostToolRequest) -> HostToolResponse:
    """Answer as control, whose limits allow every call."""
    answer = MoneyReserved(reservation=f"reserved {request.call_id}")
    return HostToolResponse(
        call_id=request.call_id, status="success", output=answer.model_dump(mode="json")
    )


async def test_a_message_before_anything_was_seen_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge_lane, "UNWRITTEN_S", 600.0)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("first", "inb_1")
            call = await model.next_call()
            await control.say("second", "inb_2")
            call.end("The whole answer.")
            (await model.next_call()).end("Another.")
            replies = await control.replied(2)
    assert [one.text for one in replies] == ["The whole answer.", "Another."]


def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a silent call be a long one almost at once."""
    monkeypatch.setattr(edge_lane, "UNWRITTEN_S", 0.05)


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_while_the_model_thinks_for_long_is_answered_with_the_one_before(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon(monkeypatch)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.bound = {"streaming": streaming}
        async with running_agent(control):
            await control.say("the price, please", "inb_1")
            first = await model.next_call()
            first.write({"choices": [{"index": 0, "delta": {"reasoning_content": "Let me see."}}]})
            await control.say("in euros", "inb_2")
            async with asyncio.timeout(30):
                await first.left.wait()
            second = await model.next_call()
            second.end("Three euros.")
            replies = await control.replied(2)
        assert model.calls.empty()
    assert [(one.text, one.kind, one.answers) for one in replies] == [
        (edge_lane.ANSWERED_TOGETHER, "answer", "inb_1"),
        ("Three euros.", "answer", "inb_2"),
    ]
    asked = str(second.body["messages"])
    assert asked.index("the price, please") < asked.index("in euros")
    stopped, answered = outputs(control)
    assert (stopped.finish_reason, answered.finish_reason) == ("interrupted", "stop")
    # the provider charges for the prompt, and for thoughts, which are estimated
    assert stopped.prompt_tokens > 0 and stopped.completion_tokens > 0
    assert not stopped.usage.counted


async def test_who_asks_again_and_again_stops_a_silent_call_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon(monkeypatch)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("think about it", "inb_1")
            await model.next_call()
            await control.say("hello?", "inb_2")
            second = await model.next_call()
            await control.say("hello??", "inb_3")
            await asyncio.sleep(0.5)
            assert not second.left.is_set()
            second.end("I think so.")
            third = await model.next_call()
            await control.say("well?", "inb_4")
            async with asyncio.timeout(30):
                await third.left.wait()
            (await model.next_call()).end("Yes.")
            replies = await control.replied(4)
    together = edge_lane.ANSWERED_TOGETHER
    assert [one.text for one in replies] == [together, "I think so.", together, "Yes."]
    assert [one.answers for one in replies] == ["inb_1", "inb_2", "inb_3", "inb_4"]


async def test_a_crash_between_a_stopped_call_and_the_next_loses_and_repeats_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon(monkeypatch)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("the price, please", "inb_1")
            await model.next_call()
            await control.say("in euros", "inb_2")
            (await model.next_call()).end("Three euros.")
            await control.replied(2)
        whole = list(control.events)
        begun = control.types().index("user_msg")
        for kept in range(begun, len(whole)):
            control.events[:] = whole
            control.crash_and_cut(kept)
            async with running_agent(control), asyncio.TaskGroup() as tasks:
                answering = tasks.create_task(answer_all(model))
                replies = await control.replied(2)
                answering.cancel()
            assert [one.answers for one in replies] == ["inb_1", "inb_2"], kept
            assert replies[1].text == "Three euros.", kept


async def answer_all(model: StreamingModel) -> None:
    """Answer every call."""
    while True:
        (await model.calls.get()).end("Three euros.")


async def test_a_message_beside_work_with_tools_does_not_stop_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon(monkeypatch)
    read = {"name": "choir.fs.read", "arguments": {"path": "a.txt"}}
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("read the file", "inb_1")
            call = await model.next_call()
            call.write({"choices": [{"index": 0, "delta": {"tool_calls": [wire(read)]}}]})
            call.end()
            second = await model.next_call()
            await control.say("thank you", "inb_2")
            await asyncio.sleep(0.5)
            assert not second.left.is_set()
            second.end("It is empty.")
            (await model.next_call()).end("You are welcome.")
            replies = await control.replied(2)
    assert [one.text for one in replies] == ["It is empty.", "You are welcome."]


async def test_a_cancel_stops_the_answer_and_what_was_seen_stays() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me")
            call = await model.next_call()
            call.say("Once upon")
            await seen(control, "Once upon")
            await control.tell(CancelSignal())
            async with asyncio.timeout(10):
                await call.left.wait()
            reply = (await control.replied())[0]
    assert (reply.text, reply.kind) == ("Once upon\n\n[I stopped here, as you asked.]", "answer")
    assert [p for p in control.payloads() if isinstance(p, Cancelled)]


async def test_a_cancel_before_anything_was_seen_closes_the_connection_to_the_provider() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me", "inb_1")
            call = await model.next_call()
            call.write({"choices": [{"index": 0, "delta": {"reasoning_content": "Let me see."}}]})
            await control.tell(CancelSignal())
            async with asyncio.timeout(30):
                await call.left.wait()
            await control.replied()
            await control.say("hello", "inb_2")
            (await model.next_call()).end("Hello.")
            replies = await control.replied(2)
    assert [(one.text, one.answers) for one in replies] == [
        ("Cancelled.", "inb_1"),
        ("Hello.", "inb_2"),
    ]
