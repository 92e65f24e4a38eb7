"""Before the agent's model reads a message, memory is asked what belongs beside it."""

import pytest

from choir_common.eventlog.chain import find_break
from choir_common.wire.events import RemindersAdded
from choir_common.wire.memory_config import ReminderConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.test_compaction import yesterday

KITE: JsonObject = {
    "document_id": "d1",
    "kind": "turn",
    "text": "The kite lies in the attic.",
    "at": "2026-05-01T09:30:00Z",
    "speaker": "user",
    "session_id": "ses_before",
    "origin": "user",
    "trust": 70,
}
SCORE = Score.model_validate(
    {
        "rules": [
            {
                "when": {"contains": "tower"},
                "then": [{"say": "It is high."}],
            },
            {
                "when": {"system_contains": "2026-05-01 09:30, user: The kite lies in the attic."},
                "then": [{"say": "In the attic."}],
            },
        ],
        "otherwise": [{"say": "I do not know."}],
    }
)


def remember(request: HostToolRequest) -> HostToolResponse:
    known = request.input["known"]
    assert isinstance(known, list)
    fresh: list[JsonObject] = [] if "d1" in known else [KITE]
    output: JsonObject = {"reminders": [*fresh], "receipts": ["r1"]}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


def be_away(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"code": "unavailable", "message": "memory is away"}
    return HostToolResponse(call_id=request.call_id, status="error", output=output)


def answer_rubbish(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"reminders": [{"text": "half of one"}]}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


def reminded(control: ControlStandIn) -> list[RemindersAdded]:
    return [payload for payload in control.payloads() if isinstance(payload, RemindersAdded)]


async def test_what_memory_knows_stands_in_the_prompt_once_and_for_as_long_as_the_message() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = remember
        control.bound = {
            "reminder_tokens": 300,
            "reminders": ReminderConfig(scopes=("home",), tags={"of": "toys"}),
        }
        async with running_agent(control):
            await control.say("Where is my kite?", "inb_1")
            assert [reply.text for reply in await control.replied()] == ["In the attic."]
            await control.say("And how high is the tower?", "inb_2")
            await control.replied(2)
            await control.say("Where was it again?", "inb_3")
            assert (await control.replied(3))[-1].text == "In the attic."
        assert [one.reminders[0].text for one in reminded(control)] == [KITE["text"]]
        asked = [call.input for call in control.host_calls]
        assert [one["known"] for one in asked] == [[], ["d1"], ["d1"]]
        assert asked[0]["text"] == "Where is my kite?" and asked[0]["budget_tokens"] == 300
        assert (asked[0]["scopes"], asked[0]["tags"]) == (["home"], {"of": "toys"})
        assert {call.tool_name for call in control.host_calls} == {"choir.memory.remind"}
        assert find_break(control.events) is None


@pytest.mark.parametrize("host_tool", [be_away, answer_rubbish])
async def test_a_memory_that_is_away_or_raves_holds_up_no_answer(host_tool: object) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = host_tool  # type: ignore[assignment]
        control.bound = {"reminder_tokens": 300}
        async with running_agent(control):
            await control.say("Where is my kite?")
            (reply,) = await control.replied()
        assert (reply.text, reply.kind) == ("I do not know.", "answer")
        assert len(control.host_calls) == 1 and reminded(control) == []


async def test_without_a_budget_nothing_is_asked() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = remember
        control.bound = {"reminder_tokens": 0}
        async with running_agent(control):
            await control.say("Where is my kite?")
            await control.replied()
        assert control.host_calls == []


async def test_a_memory_that_holds_nothing_is_not_asked_at_every_message() -> None:
    def have_nothing(request: HostToolRequest) -> HostToolResponse:
        output: JsonObject = {"reminders": [], "empty": True}
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = have_nothing
        control.bound = {"reminder_tokens": 300}
        async with running_agent(control):
            for number in (1, 2):
                await control.say("Where is my kite?", f"inb_{number}")
                await control.replied(number)
        assert len(control.host_calls) == 1 and reminded(control) == []


async def test_after_a_crash_a_message_that_was_reminded_of_is_not_asked_about_again() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = remember
        control.bound = {"reminder_tokens": 300}
        async with running_agent(control):
            await control.say("Where is my kite?")
            await control.replied()
        control.crash_and_cut(control.types().index("reminded") + 1)
        async with running_agent(control):
            assert (await control.replied())[-1].text == "In the attic."
        assert len(control.host_calls) == 1 and len(reminded(control)) == 1


async def test_only_a_users_words_ask_not_a_job_nor_its_report() -> None:
    spawn = {"name": "choir.core.spawn", "arguments": {"job_name": "dig", "task_spec": "Dig."}}
    score = Score.model_validate(
        {
            "rules": [
                {"when": {"contains": "dig a hole"}, "then": [{"call": spawn}, {"say": "ok"}]}
            ],
            "otherwise": [{"say": "Done."}],
        }
    )
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = remember
        control.bound = {"reminder_tokens": 300}
        async with running_agent(control):
            await control.say("Please dig a hole.")
            await control.until(lambda: any(one.kind == "report" for one in control.replies()))
        assert [call.input["text"] for call in control.host_calls] == ["Please dig a hole."]


async def test_what_the_prompt_still_shows_of_the_session_before_is_not_brought_up_again() -> None:
    words = {**KITE, "session_id": "ses_yesterday", "text": "what a day"}

    def repeat(request: HostToolRequest) -> HostToolResponse:
        output: JsonObject = {"reminders": [words, {**KITE, "session_id": "ses_yesterday"}]}
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.host_tool = repeat
        control.bound = {"reminder_tokens": 300}
        control.continues = "ses_yesterday"
        control.handed_down = {"events": yesterday()}
        async with running_agent(control):
            await control.say("Where is my kite?", "inb_1")
            await control.replied()
    [told] = reminded(control)
    assert [one.text for one in told.reminders] == [KITE["text"]]


async def test_a_collection_about_the_message_is_named_once_while_the_prompt_shows_it() -> None:
    def name_collection(request: HostToolRequest) -> HostToolResponse:
        output: JsonObject = {"reminders": [], "collections": ["house manuals"]}
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    score = Score.model_validate(
        {
            "rules": [
                {
                    "when": {"system_contains": '`collection`: "house manuals".'},
                    "then": [{"say": "I look there."}],
                }
            ],
            "otherwise": [{"say": "I do not know."}],
        }
    )
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = name_collection
        control.bound = {"reminder_tokens": 300}
        async with running_agent(control):
            await control.say("Which pressure?", "inb_1")
            assert [reply.text for reply in await control.replied()] == ["I look there."]
            await control.say("And which valve?", "inb_2")
            await control.replied(2)
        assert [event.collections for event in reminded(control)] == [("house manuals",)]
