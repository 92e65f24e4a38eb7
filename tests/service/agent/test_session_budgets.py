"""A session's budget is a hard stop; the user is told, asked, and can allow more."""

import orjson

from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetExhausted, BudgetGranted, CoreStopped, ModelOutput
from choir_common.wire.signals import ConfigChangedSignal, MessageSender
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.rude_provider import Request, completion, rude_provider
from tests.service.agent.running_agent import running_agent

READ = {"id": "c", "function": {"name": "choir_fs_read", "arguments": '{"path": "notes.txt"}'}}


async def costly(request: Request) -> None:
    """Answer at the price of 60,000 tokens."""
    usage = {"prompt_tokens": 59_000, "completion_tokens": 1_000}
    await request.respond(200, {**completion({"content": "here"}), "usage": usage})


async def greedy(request: Request) -> None:
    """Read a file three times, then answer."""
    if request.answered_calls < 3:
        await request.say(None, "tool_calls", tool_calls=[READ])
    else:
        await request.say("read")


async def spawning(request: Request) -> None:
    """Start four core jobs, then answer."""
    arguments = [
        orjson.dumps({"job_name": f"job{number}", "task_spec": "grind"}).decode()
        for number in range(4)
    ]
    calls = [{"function": {"name": "choir_core_spawn", "arguments": text}} for text in arguments]
    if request.answered_calls:
        await request.say("started")
    else:
        await request.say(None, "tool_calls", tool_calls=calls)


async def grind(request: Request) -> None:
    """Never come to an end, at the usual price of a prompt."""
    usage = {"prompt_tokens": len(orjson.dumps(request.body)) // 3, "completion_tokens": 500}
    message = {"content": None, "tool_calls": [READ]}
    await request.respond(200, {**completion(message, "tool_calls"), "usage": usage})


def count(control: ControlStandIn, kind: type[object]) -> int:
    """Return how many events of a type are durable."""
    return sum(isinstance(payload, kind) for payload in control.payloads())


def reports(control: ControlStandIn) -> int:
    """Return how many reports have reached the user."""
    return sum(reply.kind == "report" for reply in control.replies())


async def test_used_up_tokens_end_in_a_question_and_a_yes_goes_on() -> None:
    async with rude_provider({"go": costly}) as provider, run_control(provider.endpoint) as control:
        control.budgets = Budgets(total_session_tokens=100_000)
        async with running_agent(control):
            await control.say("go", "inb_0")
            await control.replied()
            # the next prompt would cost as much again, and that is more than what is left
            for number in (1, 2):
                await control.say("go", f"inb_{number}")
                reply = (await control.replied(number + 1))[-1]
                assert reply.kind == "error"
                for word in ("60,000 of 100,000 tokens", "/continue", "total_session_tokens"):
                    assert word in reply.text
            assert count(control, BudgetExhausted) == 1
            assert provider.asked["go"] == 1
            await control.say("/continue", "inb_3")
            assert (await control.replied(4))[-1].kind == "answer"
            await control.say("go", "inb_4")
            assert (await control.replied(5))[-1].text == "here"
    granted = [payload for payload in control.payloads() if isinstance(payload, BudgetGranted)]
    assert [(grant.amount, grant.inbox_id) for grant in granted] == [(100_000, "inb_3")]
    assert count(control, BudgetExhausted) == 1


async def test_only_a_conversation_that_was_asked_can_allow_more() -> None:
    async with rude_provider({"go": costly}) as provider, run_control(provider.endpoint) as control:
        control.budgets = Budgets(total_session_tokens=100_000)
        async with running_agent(control):
            for number in range(2):
                await control.say("go", f"inb_{number}")
                await control.replied(number + 1)
            # nobody was asked there: this yes is a message, and its answer is the question
            for number in (2, 3):
                await control.say("yes", f"inb_{number}", dm="desk")
                replies = await control.replied(number + 1)
                assert (replies[-1].dm, count(control, BudgetExhausted)) == ("desk", 2)
                assert count(control, BudgetGranted) == number - 2
    exhausted = [event.lane for event in control.events if event.type == "budget_exhausted"]
    granted = [event.lane for event in control.events if event.type == "budget_granted"]
    assert (exhausted, granted) == (["edge", "edge:desk"], ["edge:desk"])


async def test_a_members_yes_allows_nothing_and_an_admins_does() -> None:
    async with rude_provider({"go": costly}) as provider, run_control(provider.endpoint) as control:
        control.budgets = Budgets(total_session_tokens=100_000)
        async with running_agent(control):
            for number in range(2):
                await control.say("go", f"inb_{number}")
                await control.replied(number + 1)
            for number, role, grants in ((2, "member", 0), (3, "guest", 0), (4, "admin", 1)):
                sender = MessageSender.model_validate({"name": "bob", "role": role})
                await control.say("yes", f"inb_{number}", sender=sender)
                await control.replied(number + 1)
                assert count(control, BudgetGranted) == grants


async def test_a_budget_raised_in_the_configuration_unblocks_the_session_without_a_word() -> None:
    async with (
        rude_provider({"read": greedy}) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.budgets = Budgets(max_tool_calls_per_session=2)
        (control.workspace / "notes.txt").write_text("n")
        async with running_agent(control):
            await control.say("read", "inb_0")
            assert "2 of 2 tool calls" in (await control.replied())[-1].text
            await control.say("read", "inb_1")
            assert "2 of 2 tool calls" in (await control.replied(2))[-1].text
            control.budgets = Budgets(max_tool_calls_per_session=20)
            control.config_version = 2
            await control.tell(ConfigChangedSignal(config_version=2))
            await control.until(lambda: control.heartbeats[-1].config_version == 2)
            await control.say("read", "inb_2")
            assert (await control.replied(3))[-1].text == "read"
    assert count(control, BudgetExhausted) == 1
    assert count(control, BudgetGranted) == 0


async def test_core_jobs_and_the_edge_share_one_budget_and_cannot_overshoot_it_together() -> None:
    limit = 200_000
    async with rude_provider({"go": spawning, "grind": grind}) as provider:
        async with run_control(provider.endpoint) as control:
            control.budgets = Budgets(total_session_tokens=limit)
            async with running_agent(control):
                await control.say("go")
                await control.until(lambda: reports(control) == 4)
                await control.say("and you?", "inb_2")
                assert "/continue" in (await control.replied(2))[-1].text
    stopped = [payload for payload in control.payloads() if isinstance(payload, CoreStopped)]
    assert {stop.outcome for stop in stopped} == {"budget_exceeded"}
    assert "/continue" in stopped[0].reason
    assert count(control, BudgetExhausted) == 1
    outputs = [payload for payload in control.payloads() if isinstance(payload, ModelOutput)]
    spent = sum(output.prompt_tokens + output.completion_tokens for output in outputs)
    assert limit * 0.7 < spent <= limit


async def test_used_up_tool_calls_are_refused_and_the_user_is_asked() -> None:
    async with (
        rude_provider({"read": greedy}) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.budgets = Budgets(max_tool_calls_per_session=2)
        (control.workspace / "notes.txt").write_text("n")
        async with running_agent(control):
            await control.say("read")
            reply = (await control.replied())[-1]
            assert reply.kind == "error"
            assert "2 of 2 tool calls" in reply.text
            assert control.types().count("tool_call_committed") == 2
            assert count(control, BudgetExhausted) == 1
            await control.say("yes", "inb_2")
            assert (await control.replied(2))[-1].kind == "answer"
            await control.say("read", "inb_3")
            assert "4 of 4 tool calls" in (await control.replied(3))[-1].text


async def test_a_provider_without_usage_uses_up_the_budget_all_the_same() -> None:
    async def silent(request: Request) -> None:
        await request.respond(200, {**completion({"content": "here"}), "usage": None})

    async with rude_provider({"go": silent}) as provider, run_control(provider.endpoint) as control:
        async with running_agent(control):
            await control.say("go")
            await control.replied()
    output = next(p for p in control.payloads() if isinstance(p, ModelOutput))
    assert output.prompt_tokens > 1_000
    assert output.completion_tokens > 0


async def test_what_the_provider_had_in_its_cache_stands_in_the_log() -> None:
    async def cached(request: Request) -> None:
        usage = {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 800}}
        await request.respond(200, {**completion({"content": "here"}), "usage": usage})

    async with rude_provider({"go": cached}) as provider, run_control(provider.endpoint) as control:
        async with running_agent(control):
            await control.say("go")
            await control.replied()
    output = next(p for p in control.payloads() if isinstance(p, ModelOutput))
    assert (output.prompt_tokens, output.cached_tokens) == (900, 800)
