"""A voice message becomes text, and its answer is spoken; each failure costs a sentence, never the answer."""

import asyncio

import pytest
from starlette.responses import JSONResponse, Response

from choir_common.wire.config import (
    FileLimits,
)
from choir_common.wire.signals import CancelSignal, ShutdownSignal
from tests.service.agent.running_agent import running_agent
from tests.service.agent.voice_room import Room, room
from tests.support.fake_speech import openai_error
from tests.support.fake_web_services import KEY
from tests.support.ogg import make_speech

__all__ = ["room"]


async def test_what_is_said_reaches_the_model_and_the_answer_is_spoken(room: Room) -> None:
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
    (message,) = room.messages()
    assert message.text == "water the fig"
    (file,) = message.attachments
    assert file.transcription is not None
    assert (file.transcription.model, file.transcription.seconds) == ("whisper-1", 2.4)
    assert [usage.model_dump(exclude_defaults=True) for usage in message.usage] == [
        {"kind": "transcription", "name": "ears", "model": "whisper-1", "audio_seconds": 3.0}
    ]
    (heard,) = room.speech.heard
    assert heard.fields == {"model": "whisper-1", "response_format": "json"}
    assert answer.text.startswith("**Watered**")
    (spoken,) = answer.attachments
    assert (spoken.kind, spoken.mime) == ("voice", "audio/ogg")
    assert (room.control.workspace / spoken.path).read_bytes()[:4] == b"OggS"
    (body,) = room.speech.spoken
    assert body == {
        "model": "tts-1",
        "voice": "alloy",
        "response_format": "opus",
        "input": "Watered, see fig.md:\nThe code is in the text.\ndone",
    }
    assert [usage.model_dump(exclude_defaults=True) for usage in answer.usage] == [
        {
            "kind": "speech",
            "name": "loud",
            "model": "tts-1",
            "audio_seconds": 2.5,
            "characters": len(str(body["input"])),
        }
    ]


async def test_a_written_message_is_not_answered_with_speech(room: Room) -> None:
    async with running_agent(room.control):
        await room.control.say("hello")
        answer = await room.answer()
    assert answer.attachments == () and room.speech.spoken == []


async def test_without_transcription_the_model_is_told_and_answers(room: Room) -> None:
    room.control.bound["transcription"] = None
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
    assert (answer.text, answer.attachments) == ("I cannot hear you.", ())


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (openai_error(401, "x", f"Incorrect API key provided: {KEY}"), "refused its key"),
        (openai_error(400, "x", "The audio is corrupt"), "The audio is corrupt"),
        (JSONResponse({"words": "none"}), "returned no `text`"),
        (Response("<html>", 200), "not a JSON object"),
        (JSONResponse({"text": "  "}), "no words were recognised"),
    ],
)
async def test_a_failure_is_said_at_once_and_no_model_is_called(
    room: Room, response: Response, words: str
) -> None:
    room.speech.queued.append(response)
    async with running_agent(room.control):
        await room.says("water the fig")
        failed = await room.answer()
        assert failed.kind == "error"
        assert failed.text.startswith("I could not transcribe your voice message: ")
        assert words in failed.text and "model_output" not in room.control.types()
        await room.says("water the fig", "inb_2")
        assert (await room.answer(2)).text.startswith("**Watered**")
    assert len(room.speech.heard) == 2


async def test_a_missing_key_names_the_command_that_stores_it(room: Room) -> None:
    room.control.secrets = {}
    async with running_agent(room.control):
        await room.says("water the fig")
        failed = await room.answer()
    assert "choirctl secret set speech-key" in failed.text
    assert room.speech.heard == []


async def test_a_message_that_is_too_long_is_not_uploaded(room: Room) -> None:
    room.configure(max_seconds=60)
    async with running_agent(room.control):
        await room.says("water the fig", seconds=61.2)
        failed = await room.answer()
    assert "it lasts 61 s, and the limit is 60 s (`transcription.ears.max_seconds`)" in failed.text
    assert room.speech.heard == []


async def test_passing_failures_are_retried(room: Room) -> None:
    room.speech.queued += [
        openai_error(503, "x", "busy"),
        JSONResponse({}, 429, {"Retry-After": "0"}),
    ]
    room.configure(speaks=False, timeout_ms=10_000)
    async with running_agent(room.control):
        await room.says("water the fig")
        assert (await room.answer()).text.startswith("**Watered**")
    assert len(room.speech.heard) == 3


async def test_an_endpoint_that_restarts_for_seconds_costs_no_message(room: Room) -> None:
    await room.speech.stop()
    room.configure(speaks=False, timeout_ms=60_000)
    async with running_agent(room.control):
        await room.says("water the fig")
        await asyncio.sleep(5)  # longer than all retries of an endpoint that answers
        await room.speech.start()
        assert (await room.answer()).text.startswith("**Watered**")


async def test_an_endpoint_that_is_away_costs_its_deadline_and_other_text_is_answered(
    room: Room,
) -> None:
    await room.speech.stop()
    async with running_agent(room.control):
        await room.says("water the fig")
        failed = await room.answer()
        assert "cannot be reached" in failed.text and "send it again in a few" in failed.text
        await room.says("water the fig", "inb_2", text="And this")
        answer = await room.answer(2)
        assert (answer.text, answer.attachments) == ("Only that.", ())
        await room.speech.start()
        await room.says("water the fig", "inb_3")
        assert (await room.answer(3)).attachments


async def test_speech_that_fails_leaves_the_text_and_is_said_once(room: Room) -> None:
    room.configure(secret=None)
    async with running_agent(room.control):
        for number in (1, 2):
            await room.says("water the fig", f"inb_{number}")
            answer = await room.answer(number)
            assert answer.text.startswith("**Watered**") and answer.attachments == ()
        await room.control.until(lambda: bool(room.notices()))
    assert [text.partition(":")[0] for text in room.notices()] == ["I could not speak my answer"]


async def test_a_provider_without_opus_is_asked_for_the_format_of_the_profile(room: Room) -> None:
    async with running_agent(room.control):
        room.speech.hears.clear()
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.heard))
        room.speech.queued += [
            JSONResponse({"text": "water the fig"}),
            openai_error(400, "invalid_request_error", "opus is not supported"),
        ]
        room.speech.hears.set()
        answer = await room.answer()
    assert [body["response_format"] for body in room.speech.spoken] == ["opus", "mp3"]
    (file,) = answer.attachments
    assert (file.kind, file.path.rpartition(".")[2]) == ("audio", "mp3")


async def test_speech_that_is_too_large_is_not_sent_and_yet_counted(room: Room) -> None:
    room.control.bound["limits"] = FileLimits(sent_mb=1)
    large = Response(make_speech("x", size=1_200_000), media_type="audio/ogg")
    room.speech.queued += [JSONResponse({"text": "water the fig"}), large]
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
        await room.control.until(lambda: bool(room.notices()))
    assert answer.attachments == () and answer.usage[0].characters
    assert "limits.sent_mb" in room.notices()[0]


async def test_a_crash_while_it_listens_loses_nothing(room: Room) -> None:
    room.speech.hears.clear()
    async with running_agent(room.control):
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.heard))
    assert room.messages() == []
    room.speech.hears.set()
    room.control.next_epoch()
    async with running_agent(room.control):
        assert (await room.answer()).text.startswith("**Watered**")
    assert [message.text for message in room.messages()] == ["water the fig"]


async def test_a_crash_while_it_speaks_gives_one_answer(room: Room) -> None:
    async with running_agent(room.control):
        room.speech.speaks.clear()
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.spoken))
    assert room.control.replies() == []
    room.speech.speaks.set()
    room.control.next_epoch()
    async with running_agent(room.control):
        answer = await room.answer()
    assert len(answer.attachments) == 1
    assert sum(reply.answers is not None for reply in room.control.replies()) == 1


async def test_a_stop_while_it_listens_leaves_the_message_for_the_next_session(room: Room) -> None:
    room.speech.hears.clear()
    async with running_agent(room.control) as agent:
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.heard))
        await room.control.tell(ShutdownSignal(reason="test"))
        assert await agent == 0
    assert room.messages() == [] and room.control.replies() == []


async def test_a_user_can_cancel_while_it_listens(room: Room) -> None:
    room.speech.hears.clear()
    async with running_agent(room.control):
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.heard))
        await room.control.tell(CancelSignal())
        failed = await room.answer()
        assert failed.text == "I could not transcribe your voice message: you cancelled it."
        room.speech.hears.set()
        await room.says("water the fig", "inb_2")
        assert (await room.answer(2)).attachments


async def test_a_cancel_while_the_answer_is_spoken_leaves_its_text(room: Room) -> None:
    room.speech.speaks.clear()
    async with running_agent(room.control):
        await room.says("water the fig")
        await room.control.until(lambda: bool(room.speech.spoken))
        await room.control.tell(CancelSignal())
        answer = await room.answer()
        room.speech.speaks.set()
    assert (answer.kind, answer.attachments) == ("answer", ())
    assert answer.text.startswith("**Watered**")


async def test_voice_messages_are_transcribed_together_and_answered_in_order(room: Room) -> None:
    room.configure(speaks=False)
    room.speech.hears.clear()
    async with running_agent(room.control):
        for number in range(1, 6):
            await room.says(f"note {number}", f"inb_{number}")
        await room.control.say("and this in writing", "inb_6")
        await room.control.until(lambda: len(room.speech.heard) == 3)
        assert room.messages() == []
        room.speech.hears.set()
        await room.answer(6)
    assert [message.text for message in room.messages()] == [
        *(f"note {number}" for number in range(1, 6)),
        "and this in writing",
    ]


async def test_a_report_does_not_wait_for_a_transcription(room: Room) -> None:
    async with running_agent(room.control):
        await room.control.say("#spawn stuck: this #hang", "inb_1")
        await room.answer()
        room.speech.hears.clear()
        await room.says("water the fig", "inb_2")
        await room.control.until(lambda: bool(room.speech.heard))
        await room.control.tell(CancelSignal(job="stuck"))
        await room.control.until(lambda: room.control.replies()[-1].kind == "report")
        room.speech.hears.set()
        assert (await room.answer(2)).text.startswith("**Watered**")
