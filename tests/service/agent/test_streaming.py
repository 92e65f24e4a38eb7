"""The user sees an answer while the model writes it, and loses nothing of it."""

import asyncio

import pytest
from starlette.responses import Response

from choir_agent.lanes import draft_reporter
from choir_common.wire.events import Reply
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, document, run_scripted, says
from tests.service.agent.streamed_answers import CANARY, outputs, seen, wire
from tests.support.streaming_model import run_streaming


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
