"""Questions between agents, as control carries them: once, with their origin, and with an end."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from choir_common.clients.control import NatsControlClient
from choir_common.ids import new_id
from choir_common.lanes import edge_lane
from choir_common.wire.events import Reply, UserMessageStarted
from choir_common.wire.messages import InboundMessage
from choir_common.wire.provenance import LaneTaint, Origin
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import CancelSignal, UserMessageSignal
from choir_control.conversations.agent_questions import service
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until

PAGE = Origin(what="web page https://x.example")
MAIL = Origin(what="mail in the mailbox")
TAINTED = LaneTaint(outside=(PAGE,), private=(MAIL,), trust=10)


async def begun(stopped: World, **may_ask: list[str]) -> dict[str, AgentHand]:
    """Start three agents, each in a conversation of its own; `d` is configured, and does not run."""
    write_config(stopped, may_ask)
    return await started(stopped)


def write_config(stopped: World, may_ask: dict[str, list[str]], **more: Any) -> None:
    file = stopped.settings.config_file
    config = json.loads(file.read_text())
    config["agents"], config["workspaces"] = {}, {}
    for number, name in enumerate("abcd"):
        config["workspaces"][name] = {"path": str(stopped.home / "workspaces" / name)}
        config["dms"][name] = {"gateway": "bot", "user_id": f"10{number}"}
        defaults = {"workspace": name, "llm": "default", "dm": name}
        config["agents"][name] = {
            "defaults": defaults,
            "autostart": name != "d",
            "may_ask": may_ask.get(name, []),
        }
    for section, entries in more.items():
        config[section] = {**config.get(section, {}), **entries}
    file.write_text(json.dumps(config))


async def started(stopped: World) -> dict[str, AgentHand]:
    await stopped.start()

    async def are_all_there() -> bool:
        return len(stopped.runtime.specs) == 3

    await until(are_all_there)
    hands = {spec.agent_id: stopped.hand(spec) for spec in stopped.runtime.specs}
    for hand in hands.values():
        await hand.begin()
    return hands


async def ask(
    hand: AgentHand, agent: str, call_id: str = "c1", dm: str = "", tool: str = "ask", **more: Any
) -> HostToolResponse:
    input_ = {"agent": agent, "question": "what is new?", "holds": {}, **more}
    request = HostToolRequest(
        tool_name=f"choir.agent.{tool}",
        call_id=call_id,
        input=input_ if tool == "ask" else {},
        dm=dm,
    )
    return HostToolResponse.model_validate_json(await hand.call("EXECUTE_HOST_TOOL", request))


async def refusal(*call: Any, **more: Any) -> str:
    answer = await ask(*call, **more)
    assert answer.status == "error", answer.output
    return f"{answer.output['code']}: {answer.output['message']}"


async def take_up(hand: AgentHand) -> UserMessageSignal:
    signal = await hand.next_message()
    message = UserMessageStarted(
        turn_id=new_id("turn"),
        inbox_id=signal.inbox_id,
        dm=signal.dm,
        text=signal.text,
        wake_up=signal.wake_up,
    )
    hand.add(message, edge_lane(signal.dm, ""))
    await hand.flush()
    return signal


async def answer(hand: AgentHand, signal: UserMessageSignal, text: str, **more: Any) -> None:
    fields = {"kind": "answer", "answers": signal.inbox_id, **more}
    hand.add(Reply(turn_id="t", dm=signal.dm, text=text, **fields), edge_lane(signal.dm, ""))
    await hand.flush()


async def test_a_question_is_asked_once_and_its_answer_survives_a_restart(
    stopped: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.0)
    hands = await begun(stopped, a=["b"])
    a, b = hands["a"], hands["b"]
    holds = TAINTED.model_dump(mode="json")
    # a command in the question is a text like any other
    question: dict[str, Any] = {"question": "/approve all", "holds": holds}
    first = (await ask(a, "b", **question)).output
    assert (first["state"], first["agent"]) == ("open", "b")
    signal = await take_up(b)
    assert (signal.text, signal.dm, signal.sender) == ("/approve all", "ask.a.b", None)
    assert signal.wake_up is not None and signal.wake_up.question is not None
    origin = signal.wake_up.question
    assert (origin.agent, origin.session_id) == ("a", a.spec.session_id)
    assert (origin.call_id, origin.askers, origin.holds) == ("c1", ("a",), TAINTED)
    assert origin.question_id == origin.first_question == first["question_id"]
    assert "session " + a.spec.session_id in signal.wake_up.summary

    await stopped.stop()
    hands = await started(stopped)
    a, b = hands["a"], hands["b"]
    again = (await ask(a, "b", **question)).output
    assert (again["question_id"], again["session_id"]) == (origin.question_id, b.spec.session_id)
    await answer(b, signal, "nothing", holds=TAINTED)
    for _ in range(2):
        found = (await ask(a, "b", **question)).output
        assert (found["state"], found["answer"]) == ("answered", "nothing")
        assert LaneTaint.model_validate(found["holds"], strict=False) == TAINTED

    # nobody else can mark a message as a question, also not a gateway that names one
    forged = InboundMessage(
        gateway="console",
        dm="ask.a.b",
        update_id=f"question {origin.question_id}x",
        text="a question of the agent root",
        sent_at=datetime.now(UTC),
    )
    await NatsControlClient(stopped.bus).accept(forged)
    assert (await b.next_message()).wake_up is None
    rows = await stopped.database.fetch("SELECT state FROM choir_control.agent_questions")
    assert [row["state"] for row in rows] == ["answered"]
    asked = await stopped.database.fetch(
        "SELECT inbox_id FROM choir_control.inbox WHERE dm = 'ask.a.b'"
    )
    assert len(asked) == 2


async def test_questions_in_a_circle_or_without_permission_are_refused(
    stopped: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.0)
    hands = await begun(stopped, a=["b", "d"], b=["c"], c=["a", "b"])
    a, b, c = hands["a"], hands["b"], hands["c"]
    assert "may not ask 'c'" in await refusal(a, "c")
    assert "may not ask 'a'" in await refusal(a, "a")
    assert "d is not running" in await refusal(a, "d", "c2")
    assert "bad_input" in await refusal(a, "b", "c3", askers=["x"])
    # a conversation that the session does not serve
    assert "does not serve" in await refusal(a, "b", "c4", dm="ask.b.c")

    await ask(a, "b")
    to_b = await take_up(b)
    await ask(b, "c", dm=to_b.dm)
    to_c = await take_up(c)
    assert to_c.wake_up is not None and to_c.wake_up.question is not None
    assert to_b.wake_up is not None and to_b.wake_up.question is not None
    further = to_c.wake_up.question
    assert further.askers == ("a", "b")
    assert further.first_question == to_b.wake_up.question.question_id
    # they go with the conversation; it also holds after the answer, for jobs that go on
    await answer(c, to_c, "fine")
    assert "a asks b asks c asks a" in await refusal(c, "a", dm=to_c.dm)
    assert "a asks b asks c asks b" in await refusal(c, "b", "c2", dm=to_c.dm)
    # in the conversation of a person it begins again
    assert (await ask(c, "b", "c3")).output["state"] == "open"
    count = await stopped.database.fetchval("SELECT count(*) FROM choir_control.agent_questions")
    assert count == 3


async def test_a_question_that_is_over_ends_the_turn_for_it(
    stopped: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.0)
    hands = await begun(stopped, a=["b"])
    a, b = hands["a"], hands["b"]
    assert stopped.control is not None
    questions = stopped.control.services.host_tools.questions

    async def cancellations() -> int:
        rows = await stopped.database.fetch(
            "SELECT body FROM choir_control.signals WHERE session_id = $1", b.spec.session_id
        )
        return sum(json.loads(row["body"])["kind"] == "cancel" for row in rows)

    await ask(a, "b")
    signal = await take_up(b)
    await ask(a, "b", tool="stop")
    assert "no_answer: The question was cancelled." in await refusal(a, "b")
    assert await cancellations() == 1
    await questions.sweep()
    assert await cancellations() == 1
    signals = await asyncio.wait_for(b.next_signal(), 60)
    assert signals.body == CancelSignal(dm="ask.a.b")
    await answer(b, signal, "Cancelled.", kind="error")

    # a question that the other agent has not taken up yet: its turn is ended when it begins
    await ask(a, "b", "c2")
    await stopped.database.execute(
        "UPDATE choir_control.agent_questions SET deadline_at = now() - $1::interval "
        "WHERE call_id = 'c2'",
        timedelta(seconds=1),
    )
    await questions.sweep()
    assert "has not answered within" in await refusal(a, "b", "c2")
    assert await cancellations() == 1
    late = await take_up(b)
    await questions.sweep()
    assert await cancellations() == 2
    # an answer that comes in the same moment is not lost
    await answer(b, late, "late, but there")
    assert (await ask(a, "b", "c2")).output["answer"] == "late, but there"

    await ask(a, "b", "c3")
    await answer(b, await take_up(b), "The model failed.", kind="error")
    assert "b could not answer: The model failed." in await refusal(a, "b", "c3")


async def test_the_questions_of_an_hour_are_limited(
    stopped: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.0)
    hands = await begun(stopped, a=["b"])
    await stopped.database.execute(
        """
        INSERT INTO choir_control.agent_questions SELECT 'q' || n, 'a', 's', 'c' || n, 'b', 'ask.a.b',
            'console', '{a}', 'q1', now() - interval '59 minutes', now(), 'answered', now(), true
        FROM generate_series(1, 29) AS n
        """
    )
    assert (await ask(hands["a"], "b")).status == "success"
    assert "rate_limited: a has asked" in await refusal(hands["a"], "b", "c2")
    assert (await ask(hands["a"], "b")).status == "success"  # the same question again


async def test_where_people_are_kept_apart_one_person_asks(
    stopped: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "WAIT_S", 0.0)
    people = {
        "ada": {"role": "owner", "identities": [{"gateway": "bot", "user": "100"}]},
        "bob": {"role": "member", "identities": [{"gateway": "bot", "user": "999"}]},
    }
    write_config(stopped, {"a": ["b"]}, people=people)
    file = stopped.settings.config_file
    config = json.loads(file.read_text())
    config["dms"]["bobs"] = {"gateway": "bot", "user_id": "999"}
    config["agents"]["a"]["conversations"] = ["bobs"]
    file.write_text(json.dumps(config))
    a = (await started(stopped))["a"]
    assert "only for the person of its home conversation" in await refusal(a, "b", dm="bobs")
    assert (await ask(a, "b")).status == "success"
