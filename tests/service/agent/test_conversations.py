"""One session serves several conversations at once, and none of them waits for another."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from choir_agent.lanes import edge_lane, message_queue
from choir_agent.lanes.turn_moves import MAX_RESUMES
from choir_common.wire.events import Event, Reply, UserMessageStarted, parse_payload
from choir_common.wire.signals import ApprovalResolvedSignal, CancelSignal, InjectSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import DM, ControlStandIn, run_control
from tests.service.agent.running_agent import agent_process, running_agent
from tests.service.agent.test_parked_turns import asked, decide, guard
from tests.support.streaming_model import StreamedCall, StreamingModel, run_streaming

LANES = {DM: "edge", "desk": "edge:desk", "phone": "edge:phone"}
SCORE = Score.model_validate(
    {
        "rules": [
            {
                "when": {"contains": "guarded"},
                "then": [{"call": {"name": "house.door", "arguments": {}}}, {"say": "it is open"}],
            }
        ],
        "otherwise": [{"say": "you said {user}"}],
    }
)


def texts(call: StreamedCall) -> list[str]:
    """Return what a request contains besides the instructions."""
    return [str(message["content"]) for message in call.body["messages"][1:]]


async def next_calls(model: StreamingModel, count: int) -> dict[str, StreamedCall]:
    """Wait for requests; return them by the newest text of each."""
    calls = [await model.next_call() for _ in range(count)]
    return {texts(call)[-1].split("\n")[-1]: call for call in calls}


def of(control: ControlStandIn, dm: str) -> list[Reply]:
    return [reply for reply in control.replies() if reply.dm == dm]


def answers(control: ControlStandIn, dm: str) -> list[str | None]:
    return [reply.answers for reply in of(control, dm) if reply.answers]


@contextlib.asynccontextmanager
async def streaming_agent() -> AsyncIterator[tuple[StreamingModel, ControlStandIn]]:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            yield model, control


async def test_conversations_are_answered_while_another_waits_for_its_model() -> None:
    async with streaming_agent() as (model, control):
        await control.say("a long story", "inb_1")
        home = await model.next_call()
        home.say("Once ")
        await control.until(lambda: bool(control.drafts))
        await control.say("at the desk", "inb_2", dm="desk")
        await control.say("on the phone", "inb_3", dm="phone")
        calls = await next_calls(model, 2)
        calls["at the desk"].say("De")
        calls["on the phone"].say("Pho")
        await control.until(lambda: len(set(control.draft_lanes)) == 3)
        calls["on the phone"].end("ne")
        calls["at the desk"].end("sk")
        await control.replied(2)
        assert not of(control, DM)
        home.end("upon a time")
        await control.replied(3)
    assert {reply.dm: reply.text for reply in control.replies()} == {
        DM: "Once upon a time",
        "desk": "Desk",
        "phone": "Phone",
    }
    drafts = {
        (lane, one.text) for lane, one in zip(control.draft_lanes, control.drafts, strict=True)
    }
    assert {("edge", "Once "), ("edge:desk", "De"), ("edge:phone", "Pho")} <= drafts
    lanes = {(event.lane, parse_payload(event).dm) for event in control.events if is_reply(event)}  # type: ignore[union-attr]
    assert lanes == {(lane, dm) for dm, lane in LANES.items()}
    # nobody reads what was said elsewhere
    assert texts(calls["at the desk"]) == ["at the desk"]
    assert texts(calls["on the phone"]) == ["on the phone"]


def is_reply(event: Event) -> bool:
    return event.type == "reply"


async def test_many_messages_in_three_conversations_keep_their_order_and_come_once() -> None:
    dms = [DM, "desk", "desk", "phone", DM, "phone"] * 5
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        async with running_agent(control):
            for number, dm in enumerate(dms):
                await control.say(f"number {number}", f"inb_{number}", dm=dm)
            await control.replied(len(dms))
    for dm, lane in LANES.items():
        wanted = [f"inb_{number}" for number, other in enumerate(dms) if other == dm]
        taken = [
            payload.inbox_id
            for event in control.events
            if event.lane == lane
            and isinstance(payload := parse_payload(event), UserMessageStarted)
        ]
        assert taken == wanted == answers(control, dm)


async def test_a_cancellation_and_an_injection_concern_one_conversation() -> None:
    async with streaming_agent() as (model, control):
        await control.say("at home", "inb_1")
        await control.say("at the desk", "inb_2", dm="desk")
        calls = await next_calls(model, 2)
        await control.tell(InjectSignal(text="and quickly", dm="desk"))
        await control.tell(CancelSignal(dm="desk"))
        await control.replied()
        assert [(reply.dm, reply.text) for reply in control.replies()] == [("desk", "Cancelled.")]
        assert not calls["at home"].left.is_set()
        await control.tell(InjectSignal(text="nothing more"))
        await control.until(lambda: control.types().count("injected_instruction") == 2)
        calls["at home"].end("too early")
        again = await model.next_call()
        again.end("At home.")
        await control.replied(2)
    assert of(control, DM)[0].text == "At home."
    assert texts(again) == ["at home", "too early", "nothing more"]


async def test_a_call_that_waits_for_a_human_freezes_no_other_conversation() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded at home", "inb_1")
            await asked(control, 1)
            await control.say("guarded at the desk", "inb_2", dm="desk")
            home, desk = await asked(control, 2)
            await control.say("hello", "inb_3", dm="phone")
            await control.replied(1)
            # nothing else is to be done there
            assert "turn_parked" not in control.types()
            await control.say("hello", "inb_4", dm="desk")
            await control.replied(2)
            parked = [event.lane for event in control.events if event.type == "turn_parked"]
            assert parked == ["edge:desk"]
            await decide(control, desk, "approved")
            await control.replied(3)
            assert answers(control, "desk") == ["inb_4", "inb_2"]
            await decide(control, home, "rejected")
            await control.replied(4)
            assert (control.workspace / "opened").read_text() == "x"
    assert answers(control, DM) == ["inb_1"]
    dms = [request.dm for request in control.approval_requests.values()]
    assert dms == [DM, "desk"]


async def test_both_turns_go_on_after_a_kill_each_with_its_own_window() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with agent_process(control):
            for number, dm in enumerate((DM, "desk")):
                await control.say(f"hello from {dm}", f"hello_{number}", dm=dm)
                (await model.next_call()).end(f"hello {dm}")
                await control.replied(number + 1)
            await control.say("at home", "inb_1")
            await control.say("at the desk", "inb_2", dm="desk")
            before = await next_calls(model, 2)
        control.next_epoch()
        async with running_agent(control):
            after = await next_calls(model, 2)
            after["at the desk"].end("Desk.")
            await control.until(lambda: len(answers(control, "desk")) == 2)
            after["at home"].end("Home.")
            await control.replied(4)
    assert texts(after["at the desk"]) == ["hello from desk", "hello desk", "at the desk"]
    assert texts(after["at home"]) == [f"hello from {DM}", f"hello {DM}", "at home"]
    for text, call in after.items():
        assert call.body["messages"] == before[text].body["messages"]
    assert answers(control, DM) == ["hello_0", "inb_1"]
    assert control.types().count("user_msg") == 4


async def test_a_turn_that_crashes_the_agent_again_and_again_ends_alone() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        for number in range(MAX_RESUMES):
            async with running_agent(control):
                if number == 0:
                    await control.say("the end of the world", "bad", dm="desk")
                await control.say(f"hello {number}", f"inb_{number}")
                calls = await next_calls(model, 2)
                calls[f"hello {number}"].end("hello")
                await control.replied(number + 1)
            control.next_epoch()
        async with running_agent(control):
            await control.until(lambda: bool(of(control, "desk")))
            await control.say("and now?", "inb_last")
            (await model.next_call()).end("as ever")
            await control.until(lambda: answers(control, DM)[-1:] == ["inb_last"])
    [ended] = of(control, "desk")
    assert (ended.answers, ended.kind) == ("bad", "error")
    assert f"crashed {MAX_RESUMES} times" in ended.text
    assert answers(control, DM) == ["inb_0", "inb_1", "inb_2", "inb_last"]


async def test_a_full_queue_keeps_the_messages_of_its_own_conversation_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_queue, "MAX_QUEUED_MESSAGES", 4)
    monkeypatch.setattr(edge_lane, "UNWRITTEN_S", 60.0)
    async with streaming_agent() as (model, control):
        await control.say("wait", "home_0")
        call = await model.next_call()
        for number in range(1, 12):
            await control.say(f"next {number}", f"home_{number}")
        await control.say("hello", "inb_1", dm="desk")
        (await model.next_call()).end("hello")
        await control.until(lambda: answers(control, "desk") == ["inb_1"])
        call.end("done")
        for number in range(1, 12):
            call = await model.next_call()
            assert texts(call)[-1] == f"next {number}"
            call.end("done")
        await control.replied(13)
    assert answers(control, DM) == [f"home_{number}" for number in range(12)]
    assert control.types().count("user_msg") == 13


async def test_a_job_reports_to_the_conversation_that_started_it_and_is_seen_there_only() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn stuck: this #hang", "inb_1", dm="desk")
            await control.until(lambda: "core_started" in control.types())
            await control.replied(1)
            await control.say("hello", "inb_2")
            await control.replied(2)
            await control.tell(CancelSignal(job="stuck", dm=DM))
            await control.until(lambda: "cancelled" in control.types())
            await control.tell(CancelSignal(job="stuck", dm="desk"))
            await control.until(
                lambda: [r.kind for r in of(control, "desk")] == ["answer", "report"]
            )
    assert [reply.kind for reply in of(control, DM)] == ["answer"]
    stopped = [event for event in control.events if event.type == "core_stopped"]
    assert [event.payload["outcome"] for event in stopped] == ["cancelled"]
    notes = [
        event.lane
        for event in control.events
        if event.type == "model_output" and event.payload.get("notes")
    ]
    assert "edge" not in notes
    begun = [event.lane for event in control.events if event.type == "report_begun"]
    assert begun == ["edge:desk"]


async def test_a_decision_on_a_proposal_goes_to_the_conversation_that_made_it() -> None:
    change = {
        "name": "choir.propose.config_change",
        "arguments": {"patch": {"event_window": 80}, "reason": "to remember more"},
    }
    rule = {"when": {"contains": "change"}, "then": [{"call": change}, {"say": "proposed"}]}
    score = Score.model_validate({"rules": [rule], "otherwise": [{"say": "hello"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("change it", "inb_1", dm="desk")
            await control.replied()
        control.next_epoch()
        async with running_agent(control):
            approval = next(iter(control.approvals.values())).approval_id
            await control.tell(ApprovalResolvedSignal(approval_id=approval, status="approved"))
            await control.until(lambda: len(control.replies()) == 2)
    assert [(reply.dm, reply.kind) for reply in control.replies()] == [
        ("desk", "answer"),
        ("desk", "report"),
    ]
    decided = [event.lane for event in control.events if event.type == "approval_decided"]
    assert decided == ["edge:desk"]
    assert [request.dm for request in control.approval_requests.values()] == ["desk"]


async def test_twenty_conversations_call_the_model_at_the_same_time() -> None:
    async with streaming_agent() as (model, control):
        for number in range(20):
            await control.say(f"hello {number}", f"inb_{number}", dm=f"dm-{number}")
        calls = await next_calls(model, 20)
        for call in calls.values():
            call.end("hello")
        await control.replied(20)
    assert len(calls) == 20
