"""Compaction, session summaries and descriptions of pictures go on with a fallback when a model is away."""

import orjson
import pytest

from choir_common.wire.events import MemoryCompacted, PictureDescribed, SessionStopped
from choir_common.wire.signals import CompactSignal, ShutdownSignal
from choir_models import fallback
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import Answer, ErrorFault
from choir_testing.providers.server import run_provider
from tests.service.agent.running_agent import running_agent
from tests.service.agent.test_model_outages import DOWN, notices, say, session
from tests.service.agent.test_user_files import PHOTO, draw

MARK = "They spoke of the blue house"
DELTA = orjson.dumps({"memory_delta": {"mode": "append", "summary_update": MARK}}).decode()
SPARE = "gpt-4o-spare"


async def test_a_compaction_uses_the_fallback_without_a_notice_and_shares_its_cool_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fallback, "COOL_DOWN_S", 3600.0)
    first, spare = OpenAi(), OpenAi(model=SPARE)
    async with session(first, spare) as control, running_agent(control):
        for number in (1, 2, 3):
            await say(control, number)
        first.outage = DOWN
        spare.script(Answer(DELTA))
        await control.tell(CompactSignal())
        await control.until(lambda: "memory_compacted" in control.types())
        (compacted,) = [p for p in control.payloads() if isinstance(p, MemoryCompacted)]
        assert (compacted.model, compacted.failed) == (SPARE, "")
        assert compacted.usage is not None and compacted.usage.name == "spare0"
        assert MARK in compacted.summary.summary and notices(control) == []
        asked = len(first.requests)
        # the lane does not ask the failed model either, and tells the user
        await say(control, 4)
        assert len(first.requests) == asked and len(notices(control)) == 1


async def test_a_session_is_summed_up_by_the_fallback() -> None:
    first, spare = OpenAi(), OpenAi(model=SPARE)
    async with session(first, spare) as control, running_agent(control) as agent:
        await say(control, 1)
        first.outage = DOWN
        spare.script(Answer('{"summary": "About a house.", "topics": []}'))
        await control.tell(ShutdownSignal(reason="enough"))
        assert await agent == 0
        last = control.payloads()[-1]
    assert isinstance(last, SessionStopped) and last.summary == "About a house."
    assert notices(control) == []


@pytest.mark.parametrize("fault", [DOWN, ErrorFault("key")])
async def test_a_picture_is_described_by_a_fallback_that_sees(fault: ErrorFault) -> None:
    own, eye, blind, spare = OpenAi(), OpenAi(), OpenAi(model="blind"), OpenAi(model=SPARE)
    eye.outage = fault
    spare.default = Answer("A cat.")
    async with session(own, blind, spare) as control, run_provider(eye):
        control.bound |= {
            "vision_model_name": "eye",
            "vision_model": eye.settings(fallback=("spare0", "spare1")),
        }
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
        (event,) = [p for p in control.payloads() if isinstance(p, PictureDescribed)]
    assert (event.text, event.model, event.problem) == ("A cat.", SPARE, "")
    assert event.usage is not None and event.usage.name == "spare1"
    assert blind.requests == [] and notices(control) == []
