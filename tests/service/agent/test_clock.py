"""The model is told when each message of the user was sent, and what was told once stays as it was."""

import itertools
import re
from datetime import UTC, datetime, timedelta

import orjson
from pydantic import JsonValue
from starlette.responses import Response

from choir_common.wire.config_parts import FeatureFlags
from choir_common.wire.prompt_marks import SENT_LINE
from choir_common.wire.signals import ConfigChangedSignal, InjectSignal
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, calls, run_scripted, says
from tests.service.agent.strict_providers import lenient, strict_provider

SENT = datetime(2026, 11, 22, 7, 3, tzinfo=UTC)


async def test_each_message_carries_its_time_and_a_new_zone_changes_none_that_was_sent() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"timezone": "Europe/Berlin"}
        async with running_agent(control):
            await control.say("hello", "inb_1", SENT)
            await control.replied(1)
            control.bound = {"timezone": "Asia/Tokyo"}
            control.config_version += 1
            await control.tell(ConfigChangedSignal(config_version=control.config_version))
            await control.until(lambda: control.heartbeats[-1].config_version == 2)
            await control.say("and now?", "inb_2", SENT)
            await control.replied(2)
    first, second = provider.requests
    assert second[: len(first)] == first
    said = [message["content"] for message in second if message["role"] == "user"]
    assert said[0].startswith("[Sun 2026-11-22 08:03 Europe/Berlin, read ")
    assert said[0].endswith("]\nhello")
    assert said[1].startswith("[Sun 2026-11-22 16:03 Asia/Tokyo, read ")


async def test_a_message_after_a_pause_says_how_long_it_was() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"timezone": "Europe/Berlin"}
        async with running_agent(control):
            await control.say("hello", "inb_1", datetime.now(UTC))
            await control.replied(1)
            await control.say("a minute later", "inb_2", datetime.now(UTC) + timedelta(minutes=1))
            await control.replied(2)
            await control.say(
                "tomorrow", "inb_3", datetime.now(UTC) + timedelta(hours=26, minutes=1)
            )
            await control.replied(3)
    said = [message["content"] for message in provider.requests[-1] if message["role"] == "user"]
    first, second, third = (text.split("\n")[0] for text in said)
    assert "after the last message" not in first + second
    assert third.endswith(" Europe/Berlin, 26 hours after the last message]")
    assert SENT_LINE.match(said[2])


async def briefing(**bound: object) -> str:
    """Return what a core job's model was told first, by an agent with these settings."""
    briefings: list[str] = []

    def script(asked: Asked) -> Response:
        if asked.lane == "core":
            briefings.append(asked.turn.user_text)
            return says("done")
        if asked.number > 1:
            return says("fine")
        return calls(("choir_core_spawn", {"job_name": "look", "task_spec": "Look it up."}))

    async with run_scripted(script) as endpoint, run_control(endpoint) as control:
        control.bound = bound
        async with running_agent(control):
            await control.say("look it up")
            await control.until(lambda: "core_stopped" in control.types())
    (told,) = briefings
    return told


async def test_a_core_job_is_told_when_it_began() -> None:
    told = await briefing(timezone="Asia/Tokyo")
    assert re.search(r"^Begun: \w{3} \d{4}-\d\d-\d\d \d\d:\d\d Asia/Tokyo$", told, re.MULTILINE)


async def test_a_turn_that_reports_is_told_its_time_and_repeats_the_prompt_before_it() -> None:
    prompts: list[Asked] = []

    def script(asked: Asked) -> Response:
        if asked.lane == "core":
            return says("done")
        prompts.append(asked)
        if asked.lane == "edge" and asked.number == 1:
            return calls(("choir_core_spawn", {"job_name": "look", "task_spec": "Look it up."}))
        return says("fine")

    async with run_scripted(script) as endpoint, run_control(endpoint) as control:
        control.bound = {"timezone": "Asia/Tokyo"}
        async with running_agent(control):
            await control.say("look it up", "inb_1", datetime.now(UTC))
            await control.until(lambda: any(r.kind == "report" for r in control.replies()))
            later = datetime.now(UTC) + timedelta(hours=3, minutes=1)
            await control.say("and now?", "inb_2", later)
            await control.replied(2)
    (report,) = (str(asked.body["messages"]) for asked in prompts if asked.lane == "report")
    assert re.search(
        r"to be reported\. It is \w{3} \d{4}-\d\d-\d\d \d\d:\d\d Asia/Tokyo\. Report ", report
    )
    last = str(prompts[-1].body["messages"])
    assert "Asia/Tokyo, 3 hours after the last message]" in last
    for before, after in itertools.pairwise(prompts):
        assert orjson.dumps(before.body["tools"]) == orjson.dumps(after.body["tools"])
        # byte for byte, without the closing bracket of the list
        assert orjson.dumps(history(after)).startswith(orjson.dumps(history(before))[:-1])


def history(asked: Asked) -> list[JsonValue]:
    """Return the messages of a prompt without its last one if that lists the core jobs of the moment."""
    messages = asked.body["messages"]
    assert isinstance(messages, list)
    return messages[:-1] if "Running core jobs" in str(messages[-1]) else messages


async def test_a_core_job_is_told_no_time_where_that_is_switched_off() -> None:
    told = await briefing(features=FeatureFlags(message_times=False))
    assert "Look it up." in told and "Begun:" not in told


async def test_words_injected_by_the_user_carry_their_time() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"timezone": "Europe/Berlin"}
        async with running_agent(control):
            await control.tell(InjectSignal(text="I prefer tea", sent_at=SENT))
            await control.tell(InjectSignal(text="from a version without times"))
            await control.say("hello", "inb_1", SENT)
            await control.replied(1)
    (request,) = provider.requests
    said = [message["content"] for message in request if message["role"] == "user"]
    assert said[0].startswith("[Sun 2026-11-22 08:03 Europe/Berlin, read ")
    assert said[0].endswith("]\nI prefer tea")
    assert said[1] == "from a version without times"
