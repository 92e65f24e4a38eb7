"""The agent answers: whole turns against a real socket, a real model server and a real workspace."""

import asyncio

from choir_common.eventlog.chain import find_break
from choir_common.wire.config import Budgets
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import CancelSignal, ConfigChangedSignal, ShutdownSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

READ_NOTES = {"name": "choir.fs.read", "arguments": {"path": "notes.txt"}}


def score(*steps: dict[str, object], rules: tuple[dict[str, object], ...] = ()) -> Score:
    return Score.model_validate({"rules": list(rules), "otherwise": list(steps)})


def results(control: ControlStandIn) -> list[ToolResultCommitted]:
    return [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]


async def test_a_message_is_answered_and_the_log_shows_how() -> None:
    async with run_rehearsal(score({"say": "Good day."})) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("hello")
            reply = (await control.replied())[0]
    assert (reply.text, reply.kind, reply.answers) == ("Good day.", "answer", "inb_1")
    assert control.types() == ["session_started", "user_msg", "model_output", "reply"]
    assert find_break(control.events) is None


async def test_a_tool_call_goes_through_request_commitment_and_result() -> None:
    steps = score({"call": READ_NOTES}, {"say": "It says: {result.output.text}"})
    async with run_rehearsal(steps) as model, run_control(model) as control:
        (control.workspace / "notes.txt").write_text("buy tea")
        async with running_agent(control):
            await control.say("read the note")
            reply = (await control.replied())[0]
    assert reply.text == "It says: buy tea"
    assert control.types()[2:] == [
        "model_output",
        "tool_call_requested",
        "tool_call_committed",
        "tool_result_committed",
        "model_output",
        "reply",
    ]


async def test_calls_that_touch_the_same_thing_run_in_the_models_order() -> None:
    calls = [
        {"name": "choir.fs.write", "arguments": {"path": "a.txt", "content": "one\n"}},
        {"name": "choir.exec", "arguments": {"command": "cat a.txt; echo two >> a.txt"}},
        {"name": "choir.fs.read", "arguments": {"path": "./sub/../a.txt"}},
    ]
    async with run_rehearsal(score({"call": calls}, {"say": "done"})) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("go")
            await control.replied()
            by_tool = {result.tool: result.output for result in results(control)}
    assert by_tool["choir.exec"]["stdout"] == "one\n"
    assert by_tool["choir.fs.read"]["text"] == "one\ntwo\n"


async def test_a_memory_write_is_sent_to_the_host_as_given_and_becomes_an_event() -> None:
    arguments = {"operation": "update", "key": "user.tea", "text": "green"}
    call = {"name": "choir.memory.upsert", "arguments": arguments}

    def remember(request: HostToolRequest) -> HostToolResponse:
        output = {"document_id": "doc_1", "key": "user.tea", "operation": "updated"}
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    async with run_rehearsal(score({"call": call}, {"say": "noted"})) as model:
        async with run_control(model) as control, running_agent(control):
            control.host_tool = remember
            await control.say("remember my tea")
            await control.replied()
    assert [call.input for call in control.host_calls] == [arguments]
    assert control.types()[-4:-2] == ["memory_write_committed", "tool_result_committed"]


async def test_working_memory_finds_what_was_said_in_this_session() -> None:
    query = {"name": "choir.memory.query", "arguments": {"store": "working", "query": "turnip"}}
    rules = ({"when": {"contains": "search"}, "then": [{"call": query}, {"say": "ok"}]},)
    async with run_rehearsal(score({"say": "noted"}, rules=rules)) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("I grow one turnip", "inb_1")
            await control.replied()
            await control.say("search", "inb_2")
            await control.replied(2)
            hits = results(control)[0].output["hits"]
    assert "I grow one turnip" in str(hits)


async def test_every_result_says_in_a_few_words_what_happened() -> None:
    calls = [
        {"name": "choir.fs.write", "arguments": {"path": "a.txt", "content": "one\ntwo\n"}},
        {"name": "choir.fs.read", "arguments": {"path": "a.txt"}},
        {"name": "choir.exec", "arguments": {"command": "printf hello; exit 3"}},
        {"name": "choir.core.list", "arguments": {}},
        {"name": "choir.memory.query", "arguments": {"store": "working", "query": "turnip"}},
        {"name": "choir.fs.read", "arguments": {"path": "gone.txt"}},
    ]
    async with run_rehearsal(score({"call": calls}, {"say": "done"})) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("go")
            assert (await control.replied())[0].text == "done"
    by_call = {(r.tool, r.status): r.output["summary"] for r in results(control)}
    assert by_call == {
        ("choir.fs.write", "success"): "a.txt created: 8 bytes",
        ("choir.fs.read", "success"): "lines 1 to 2 of 2 of a.txt",
        ("choir.exec", "success"): "exit code 3, 5 bytes of output",
        ("choir.core.list", "success"): "0 core jobs are running",
        ("choir.memory.query", "success"): "0 hits",
        ("choir.fs.read", "error"): "'gone.txt' does not exist in the workspace.",
    }


async def test_bad_calls_are_refused_with_a_reason_and_the_turn_goes_on() -> None:
    calls = [
        {"name": "choir.fs.erase", "arguments": {}},
        {"name": "choir.fs.read", "arguments": {"path": 7}},
        {"name": "choir.fs.read", "arguments": {"path": "../../etc/passwd"}},
    ]
    async with run_rehearsal(score({"call": calls}, {"say": "sorry"})) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("go")
            assert (await control.replied())[0].text == "sorry"
    assert [result.status for result in results(control)] == ["refused"] * 3
    assert [result.output["code"] for result in results(control)] == [
        "unknown_tool",
        "invalid_arguments",
        "outside_workspace",
    ]
    assert "tool_call_committed" not in control.types()


async def test_arguments_that_are_no_json_are_refused() -> None:
    steps = score({"malformed": "arguments"}, {"call": READ_NOTES}, {"say": "I asked wrongly."})
    async with run_rehearsal(steps) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("go")
            await control.replied()
    assert "malformed_arguments" in [result.output["code"] for result in results(control)]


async def test_messages_wait_their_turn_and_a_repeated_signal_is_taken_once() -> None:
    async with run_rehearsal(score({"delay_ms": 50, "say": "you said {user}"})) as model:
        async with run_control(model) as control, running_agent(control):
            for inbox_id in ("inb_1", "inb_2", "inb_1", "inb_3", "inb_2"):
                await control.say(inbox_id, inbox_id)
            replies = await control.replied(3)
            await asyncio.sleep(0.2)
    assert [reply.answers for reply in replies] == ["inb_1", "inb_2", "inb_3"]
    assert len(control.replies()) == 3


async def test_a_rate_limit_is_told_once_and_tried_again_once() -> None:
    steps = score({"error": {"status": 429, "retry_after_s": 0.05}}, {"say": "here I am"})
    async with run_rehearsal(steps) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("hello")
            kinds = [(reply.kind, reply.answers) for reply in await control.replied()]
    assert kinds == [("notice", None), ("answer", "inb_1")]


async def test_model_failures_reach_the_user_and_the_session_lives_on() -> None:
    rules = tuple(
        {"when": {"contains": word}, "then": [{**fault, "say": "never"}]}
        for word, fault in {
            "limit": {"error": {"status": 429, "retry_after_s": 0.01, "times": 0}},
            "broken": {"error": {"status": 500, "times": 0}},
            "half": {"malformed": {"kind": "body", "times": 0}},
            "empty": {"malformed": {"kind": "empty", "times": 0}},
            "html": {"malformed": {"kind": "html", "times": 0}},
            "cut": {"malformed": {"kind": "cut", "times": 0}},
        }.items()
    )
    words = ["limit", "broken", "half", "empty", "html", "cut"]
    async with run_rehearsal(score({"say": "fine"}, rules=rules)) as model:
        async with run_control(model) as control, running_agent(control):
            for number, word in enumerate([*words, "hello"]):
                await control.say(word, f"inb_{number}")
                await control.replied(number + 1)
    closing = [reply for reply in control.replies() if reply.answers]
    assert [reply.kind for reply in closing] == ["error"] * len(words) + ["answer"]
    assert closing[1].text.startswith("I could not get an answer from the model")


async def test_a_loop_ends_at_the_budget_and_says_so() -> None:
    rules = ({"when": {"contains": "loop"}, "then": [{"call": READ_NOTES}] * 9 + [{"say": "x"}]},)
    async with run_rehearsal(score({"say": "fine"}, rules=rules)) as model:
        async with run_control(model) as control:
            control.budgets = Budgets(max_steps_per_turn=3, max_tool_calls_per_turn=50)
            async with running_agent(control):
                await control.say("loop")
                reply = (await control.replied())[0]
    assert reply.kind == "error"
    assert "max_steps_per_turn" in reply.text
    assert control.types().count("model_output") == 3


async def test_too_many_tool_calls_end_the_turn_before_they_run() -> None:
    steps = score({"call": [READ_NOTES] * 5}, {"say": "x"})
    async with run_rehearsal(steps) as model, run_control(model) as control:
        control.budgets = Budgets(max_tool_calls_per_turn=4)
        async with running_agent(control):
            await control.say("go")
            reply = (await control.replied())[0]
            await control.say("and now?", "inb_2")
            await control.replied(2)
    assert "max_tool_calls_per_turn" in reply.text
    assert "tool_call_requested" not in control.types()[: control.types().index("reply")]


async def test_a_cancel_kills_the_command_and_closes_the_turn() -> None:
    sleep = {"name": "choir.exec", "arguments": {"command": "touch begun; sleep 30; touch late"}}
    rules = ({"when": {"contains": "sleep"}, "then": [{"call": sleep}, {"say": "x"}]},)
    async with run_rehearsal(score({"say": "fine"}, rules=rules)) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("sleep")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            await control.tell(CancelSignal())
            reply = (await control.replied())[0]
            assert (reply.text, reply.answers) == ("Cancelled.", "inb_1")
            assert results(control)[0].status == "interrupted"
            await control.say("hello", "inb_2")
            assert (await control.replied(2))[1].text == "fine"


async def test_a_shutdown_ends_in_good_order() -> None:
    async with run_rehearsal(score({"say": "hi"})) as model, run_control(model) as control:
        async with running_agent(control) as agent:
            await control.say("hello")
            await control.replied()
            await control.tell(ShutdownSignal(reason="operator"))
            assert await agent == 0
    assert control.types()[-1] == "session_stopped"
    assert control.terminated == "operator"


async def test_a_turn_that_ends_within_the_grace_is_answered_before_the_stop() -> None:
    call = {
        "name": "choir.exec",
        "arguments": {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done"},
    }
    async with run_rehearsal(score({"call": call}, {"say": "done"})) as model:
        async with (
            run_control(model) as control,
            running_agent(control, stop_grace_s=60) as agent,
        ):
            await control.say("work")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            await control.tell(ShutdownSignal(reason="operator"))
            await control.until(lambda: control.heartbeats[-1].new_rev > 0)
            (control.workspace / "go").touch()
            assert await agent == 0
    assert [reply.text for reply in control.replies()] == ["done"]
    assert control.types()[-1] == "session_stopped"


async def test_a_turn_that_does_not_end_within_the_grace_is_gone_on_with_by_the_next_start() -> (
    None
):
    call = {"name": "choir.exec", "arguments": {"command": "echo x >> runs; touch begun; sleep 30"}}
    async with run_rehearsal(score({"call": call}, {"say": "went on"})) as model:
        async with run_control(model) as control:
            async with running_agent(control) as agent:
                await control.say("work")
                while not (control.workspace / "begun").exists():
                    await asyncio.sleep(0.02)
                await control.tell(ShutdownSignal(reason="operator"))
                assert await agent == 0
            # not a word to the user, and nothing of the call: as if the agent had been killed
            assert control.replies() == [] and results(control) == []
            assert control.types()[-1] == "session_suspended"
            control.next_epoch()
            async with running_agent(control):
                [reply] = await control.replied()
            runs = (control.workspace / "runs").read_text()
    assert (reply.text, reply.answers) == ("went on", "inb_1")
    assert [result.status for result in results(control)] == ["interrupted"]
    assert runs == "x\n"
    assert control.types().count("user_msg") == 1


async def test_new_settings_and_secrets_are_used_from_the_next_call_on() -> None:
    async with run_rehearsal(score({"say": "one"})) as first:
        async with run_rehearsal(score({"say": "two"})) as second, run_control(first) as control:
            async with running_agent(control):
                await control.say("hello", "inb_1")
                await control.replied()
                control.model_endpoint, control.config_version = second, 2
                await control.tell(ConfigChangedSignal(config_version=2))
                await control.until(lambda: control.heartbeats[-1].config_version == 2)
                await control.say("hello", "inb_2")
                replies = await control.replied(2)
    assert [reply.text for reply in replies] == ["one", "two"]


async def test_characters_no_database_takes_are_replaced_and_the_chain_holds() -> None:
    call = {"name": "choir.exec", "arguments": {"command": "printf 'a\\0b\\377'"}}
    async with run_rehearsal(score({"call": call}, {"say": "nul: \u0000."})) as model:
        async with run_control(model) as control, running_agent(control):
            await control.say("go")
            reply = (await control.replied())[0]
    assert reply.text == "nul: �."
    assert results(control)[0].output["stdout"] == "a�b�"
    assert find_break(control.events) is None


async def test_a_host_tool_whose_part_is_away_for_a_moment_is_tried_again_under_its_key() -> None:
    call = {"name": "choir.memory.upsert", "arguments": {"operation": "insert", "text": "tea"}}
    answers = iter(["unavailable", "outcome_unknown", None])

    def recovering(request: HostToolRequest) -> HostToolResponse:
        code = next(answers)
        if code is None:
            return HostToolResponse(call_id=request.call_id, status="success", output={})
        output = {"code": code, "message": "in a moment"}
        return HostToolResponse(call_id=request.call_id, status="error", output=output)

    async with run_rehearsal(score({"call": call}, {"say": "noted"})) as model:
        async with run_control(model) as control, running_agent(control):
            control.host_tool = recovering
            await control.say("remember")
            await control.replied()
    assert len({call.call_id for call in control.host_calls}) == 1
    assert [result.status for result in results(control)] == ["success"]


async def test_a_page_that_may_have_been_opened_is_not_opened_again() -> None:
    call = {
        "name": "choir.web.browse",
        "arguments": {"action": "open", "url": "http://example.org/"},
    }

    def lost(request: HostToolRequest) -> HostToolResponse:
        output = {"code": "outcome_unknown", "message": "the browser went away"}
        return HostToolResponse(call_id=request.call_id, status="error", output=output)

    async with run_rehearsal(score({"call": call}, {"say": "sorry"})) as model:
        async with run_control(model) as control, running_agent(control):
            control.host_tool = lost
            await control.say("look")
            await control.replied()
    assert len(control.host_calls) == 1
    assert [result.status for result in results(control)] == ["interrupted"]
