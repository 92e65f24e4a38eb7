"""The user sees an answer while the model writes it, can stop it, and loses nothing of it."""

import asyncio
from decimal import Decimal

import pytest
from starlette.responses import Response

from choir_agent.lanes import draft_reporter, edge_lane
from choir_common.wire.config import Budgets
from choir_common.wire.events import Cancelled, ModelOutput, Reply
from choir_common.wire.money import MoneyReserved
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import CancelSignal, MessageSender
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, document, run_scripted, says
from tests.support.streaming_model import StreamingModel, run_streaming

CANARY = "sk-canary-0123456789"


async def seen(control: ControlStandIn, text: str) -> None:
    """Wait until the newest draft is this text."""
    await control.until(lambda: bool(control.drafts) and control.drafts[-1].text == text)


def outputs(control: ControlStandIn) -> list[ModelOutput]:
    return [p for p in control.payloads() if isinstance(p, ModelOutput)]


async def test_an_answer_is_shown_as_it_is_written_and_stored_once() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me")
            call = await model.next_call()
            assert call.body["stream"] is True
            assert call.body["stream_options"] == {"include_usage": True}
            call.say("Once ")
            await seen(control, "Once ")
            assert not control.replies()
            call.say("upon")
            await seen(control, "Once upon")
            call.end(" a time.")
            reply = (await control.replied())[0]
    assert reply.text == "Once upon a time."
    assert [(one.text, one.prompt_tokens) for one in outputs(control)] == [(reply.text, 10)]
    started = next(event for event in control.events if event.type == "user_msg")
    reply_rev = next(event.rev for event in control.events if event.type == "reply")
    assert all(started.rev <= draft.read_rev < reply_rev for draft in control.drafts)


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


async def test_a_cut_in_the_middle_replaces_the_draft() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.rate_limit_retry_ms = 1
        async with running_agent(control):
            await control.say("tell me")
            first = await model.next_call()
            first.say("Once upon")
            await seen(control, "Once upon")
            first.cut()
            second = await model.next_call()
            await seen(control, "")
            second.say("In the")
            await seen(control, "In the")
            second.end(" beginning.")
            replies = await control.replied()
    assert [one.text for one in replies] == ["In the beginning."]
    assert len(outputs(control)) == 1


async def test_a_fallback_in_the_middle_of_an_answer_replaces_the_draft() -> None:
    async with run_streaming() as model, run_streaming() as spare:
        async with run_control(model.endpoint) as control:
            control.rate_limit_retry_ms = 1
            main = control.settings().model
            other = main.model_copy(update={"model": "spare-model", "endpoint": spare.endpoint})
            chain = main.model_copy(update={"fallback": ("spare",)})
            control.bound = {"model": chain, "fallback_models": {"spare": other}}
            async with running_agent(control):
                await control.say("tell me")
                # a model with a fallback is retried once
                for text in ("Once upon", "Once more"):
                    call = await model.next_call()
                    call.say(text)
                    await seen(control, text)
                    call.cut()
                second = await spare.next_call()
                await seen(control, "")
                second.say("In the")
                await seen(control, "In the")
                second.end(" beginning.")
                replies = await control.replied()
    assert [one.text for one in replies if one.answers] == ["In the beginning."]
    assert [one.model for one in outputs(control)] == ["spare-model"]


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


async def test_the_first_words_of_an_answer_do_not_wait_for_the_interval_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_reporter, "INTERVAL_S", 600.0)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            for number in (1, 2):
                await control.say("tell me", f"inb_{number}")
                call = await model.next_call()
                call.say(f"Answer {number}")
                await seen(control, f"Answer {number}")
                call.end(".")
                await control.replied(number)


async def test_no_cut_of_a_secret_reaches_a_draft() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.secret, control.secrets = "key", {"key": CANARY}
        async with running_agent(control):
            await control.say("what is the key?")
            call = await model.next_call()
            for character in f"It is {CANARY}":
                call.say(character)
                await asyncio.sleep(0.005)
            call.say(", really")
            await seen(control, "It is [redacted], really")
            call.end(".")
            reply = (await control.replied())[0]
    assert reply.text == "It is [redacted], really."
    assert not any("sk" in draft.text for draft in control.drafts)


async def test_an_agent_without_streaming_asks_for_whole_answers() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.bound = {"streaming": False}
        async with running_agent(control):
            await control.say("tell me")
            call = await model.next_call()
            assert "stream" not in call.body
            call.end("a server that streams nevertheless")
            reply = (await control.replied())[0]
    assert reply.text == "a server that streams nevertheless"
    assert not control.drafts


async def test_a_core_job_streams_so_that_long_answers_are_no_silence_but_nobody_sees_them() -> (
    None
):
    job = {"name": "choir.core.spawn", "arguments": {"job_name": "dig", "task_spec": "dig"}}
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("start a job")
            call = await model.next_call()
            call.write({"choices": [{"index": 0, "delta": {"tool_calls": [wire(job)]}}]})
            call.end()
            bodies = [(await model.next_call()) for _ in range(2)]
            assert ["stream" in one.body for one in bodies] == [True, True]
            for one in bodies:
                one.end("done")
            await control.replied()


def wire(call: dict[str, object]) -> dict[str, object]:
    """Return a tool call as a server streams it."""
    name = str(call["name"]).replace(".", "_")
    arguments = str(call["arguments"]).replace("'", '"')
    return {"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("refused", ["stream_options", "stream"])
async def test_a_server_that_refuses_to_stream_is_asked_without_it_from_then_on(
    refused: str,
) -> None:
    asked: list[bool] = []

    def answer(request: Asked) -> Response:
        body = request.body
        asked.append(refused in body)
        if refused in body:
            error = {"message": f"unknown field: {refused}", "type": "invalid_request_error"}
            response = document({"error": error})
            response.status_code = 400
            return response
        return says(f"fine, {'stream' in body}")

    async with run_scripted(answer) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("hello", "inb_1")
            await control.replied()
            await control.say("hello again", "inb_2")
            replies = await control.replied(2)
    assert asked == [True, False, False]
    assert {one.text for one in replies} == {f"fine, {refused == 'stream_options'}"}


async def test_a_fault_in_the_middle_of_a_stream_does_not_end_streaming_for_good() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.rate_limit_retry_ms = 1
        async with running_agent(control):
            await control.say("tell me")
            first = await model.next_call()
            first.say("Once upon")
            first.write({"error": {"code": 502, "message": "the upstream stream was closed"}})
            first.end()
            second = await model.next_call()
            assert second.body["stream"] is True
            second.end("In the beginning.")
            replies = await control.replied()
    assert [one.text for one in replies] == ["In the beginning."]


async def test_a_parameter_refused_in_the_middle_of_a_stream_replaces_the_draft() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me")
            first = await model.next_call()
            first.say("Once upon")
            await seen(control, "Once upon")
            message = "temperature is not supported"
            first.write({"error": {"code": 400, "message": message}})
            first.end()
            second = await model.next_call()
            assert "temperature" not in second.body
            await seen(control, "")
            second.end("In the beginning.")
            replies = await control.replied()
    assert [one.text for one in replies] == ["In the beginning."]


async def test_a_restart_in_the_middle_answers_from_the_beginning() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me")
            (await model.next_call()).say("Once upon")
            await seen(control, "Once upon")
        control.next_epoch()
        async with running_agent(control):
            call = await model.next_call()
            call.say("In the")
            await seen(control, "In the")
            call.end(" beginning.")
            replies = await control.replied()
    assert [one.text for one in replies] == ["In the beginning."]


async def test_a_control_that_hangs_delays_no_answer() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.accepting_drafts.clear()
        async with running_agent(control):
            await control.say("tell me")
            call = await model.next_call()
            for number in range(200):
                call.say(f"{number} ")
            call.end()
            reply = (await control.replied())[0]
        control.accepting_drafts.set()
    assert reply.text.startswith("0 1 2 ")
    assert len(control.drafts) <= 1


async def test_a_short_answer_of_the_rehearsal_model_needs_no_draft() -> None:
    score = Score.model_validate({"otherwise": [{"say": "you said {user}"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("hello")
            reply: Reply = (await control.replied())[0]
    assert reply.text == "you said hello"
    assert not control.drafts
