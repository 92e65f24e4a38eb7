"""A voice message becomes text, and its answer is spoken; each failure costs a sentence, never the answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from starlette.responses import JSONResponse, Response

from choir_common.eventlog.chain import find_break
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import (
    Budgets,
    FileLimits,
    TranscriptionBinding,
    TranscriptionConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.events import Reply, ToolResultCommitted, UserMessageStarted
from choir_common.wire.model import JsonObject
from choir_common.wire.money import RELEASE_TOOL, MoneyReserved
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import CancelSignal, ShutdownSignal, UserMessageSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import DM, ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.support.fake_speech import FakeSpeech, fake_speech, openai_error
from tests.support.fake_web_services import KEY
from tests.support.ogg import make_speech

PATH = ".choirtmp/recv/{}-voice.ogg"
SCORE = Score.model_validate(
    {
        "rules": [
            {
                "when": {"regex": r"(?s)water the fig.*\(a transcript of it, 2 s, is above"},
                "then": [{"say": "**Watered**, see `fig.md`:\n\n```\nfig\n```\n- done"}],
            },
            {"when": {"contains": "no transcription model is configured"},
             "then": [{"say": "I cannot hear you."}]},
            {"when": {"contains": "say it aloud", "last_role": "user"},
             "then": [{"call": {"name": "choir.tts.speak", "arguments": {"text": "Aloud."}}},
                      {"say": "Done."}]},
            {"when": {"regex": "(?s)And this.*not transcribed"}, "then": [{"say": "Only that."}]},
        ],
        "otherwise": [{"say": "Heard."}],
    }
)  # fmt: skip


class Room:
    """An agent's control with a speech service, in which the user speaks."""

    def __init__(self, control: ControlStandIn, speech: FakeSpeech) -> None:
        self.control = control
        self.speech = speech
        control.secrets = {"speech-key": KEY}
        self.configure()

    def configure(
        self,
        *,
        max_seconds: int = 1_200,
        timeout_ms: int = 2_000,
        speaks: bool = True,
        **tts: object,
    ) -> None:
        """Bind the agent to the speech service."""
        config = TranscriptionConfig(
            model="whisper-1",
            endpoint=self.speech.endpoint,
            secret="speech-key",
            max_seconds=max_seconds,
            timeout_ms=timeout_ms,
        )
        fields = {"provider": "openai", "model_id": "tts-1", "endpoint": self.speech.endpoint}
        voice = VoiceBinding(
            profile=VoiceProfileConfig(tts="loud", voice_id="alloy"),
            tts=TtsConfig.model_validate(fields | {"secret": "speech-key"} | tts),
        )
        self.control.bound = {
            "transcription": TranscriptionBinding(name="ears", config=config),
            "voice": voice if speaks else None,
        }

    async def says(
        self, words: str, inbox_id: str = "inb_1", text: str = "", seconds: float = 2.4
    ) -> None:
        """Send a voice message, as control hands it over."""
        content = make_speech(words, seconds)
        name = PATH.format(inbox_id)
        path = self.control.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        file = ReceivedFile(
            name="voice.ogg", kind="voice", mime="audio/ogg", size=len(content), path=name
        )
        message = UserMessageSignal(inbox_id=inbox_id, dm=DM, text=text, attachments=(file,))
        await self.control.tell(message)

    def messages(self) -> list[UserMessageStarted]:
        return [p for p in self.control.payloads() if isinstance(p, UserMessageStarted)]

    async def answer(self, count: int = 1) -> Reply:
        """Return the reply that closes the `count`-th message."""
        replies = await self.control.replied(count)
        return [reply for reply in replies if reply.answers is not None][count - 1]

    def notices(self) -> list[str]:
        return [reply.text for reply in self.control.replies() if reply.kind == "notice"]


@contextlib.asynccontextmanager
async def speaking() -> AsyncIterator[Room]:
    async with (
        run_rehearsal(SCORE) as model,
        run_control(model) as control,
        fake_speech() as speech,
    ):
        yield Room(control, speech)
        assert find_break(control.events) is None
        assert KEY not in str(control.events)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with speaking() as opened:
        yield opened


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


class Purse:
    """Control's budgets: they allow the calls whose kind is in `allowed`."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.reserved: dict[str, JsonObject] = {}
        self.released: list[str] = []

    def __call__(self, request: HostToolRequest) -> HostToolResponse:
        output = MoneyReserved(reservation=request.call_id)
        kind = str(request.input.get("kind"))
        if request.tool_name == RELEASE_TOOL:
            self.released.append(str(request.input["reservation"]))
        elif kind in self.allowed:
            self.reserved[request.call_id] = request.input
        else:
            text = f"No money for {kind}. Answer /continue to allow $1.00 more."
            output = MoneyReserved(
                budget="usd_per_day", limit_micro_usd=5, until=TOMORROW, text=text
            )
        return HostToolResponse(
            call_id=request.call_id, status="success", output=output.model_dump(mode="json")
        )

    def kinds(self) -> list[str]:
        return [str(arguments["kind"]) for arguments in self.reserved.values()]


TOMORROW = "2999-01-01T00:00:00.000000Z"
LIMITED = Budgets.model_validate_json('{"usd_per_day": 5}')


def limit(room: Room, *allowed: str) -> Purse:
    purse = Purse(*allowed)
    room.control.budgets, room.control.host_tool = LIMITED, purse
    return purse


async def test_hearing_and_speaking_are_reserved_and_their_events_settle_it(room: Room) -> None:
    purse = limit(room, "transcription", "chat", "speech")
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
    assert purse.kinds() == ["transcription", "chat", "speech"]
    heard, _, spoken = purse.reserved.values()
    assert (heard["name"], heard["audio_seconds"]) == ("ears", 2.4)
    assert (spoken["name"], spoken["characters"]) == ("loud", answer.usage[0].characters)
    (message,) = room.messages()
    settled = {message.usage[0].reservation, answer.usage[0].reservation}
    assert settled == {name for name, it in purse.reserved.items() if it["kind"] != "chat"}
    assert purse.released == []


async def test_without_money_for_hearing_the_user_is_asked_and_continues(room: Room) -> None:
    purse = limit(room, "chat", "speech")
    async with running_agent(room.control):
        await room.says("water the fig")
        asked = await room.answer()
        assert "No money for transcription. Answer /continue" in asked.text
        assert "send the message again" in asked.text
        assert room.speech.heard == [] and "model_output" not in room.control.types()
        purse.allowed.add("transcription")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
        await room.says("water the fig", "inb_3")
        assert (await room.answer(3)).text.startswith("**Watered**")
    types = room.control.types()
    assert types.count("budget_exhausted") == types.count("budget_granted") == 1


async def test_without_money_for_speaking_the_text_is_sent_and_the_user_asked(room: Room) -> None:
    purse = limit(room, "transcription", "chat")
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
        assert answer.text.startswith("**Watered**") and answer.attachments == ()
        await room.control.until(lambda: bool(room.notices()))
        assert "No money for speech. Answer /continue" in room.notices()[0]
        assert room.speech.spoken == []
        purse.allowed.add("speech")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
    assert "budget_granted" in room.control.types()


async def test_the_speech_tool_without_money_tells_the_model_and_the_user_may_allow_it(
    room: Room,
) -> None:
    purse = limit(room, "chat")
    async with running_agent(room.control):
        await room.control.say("say it aloud", "inb_1")
        await room.answer()
        results = [p for p in room.control.payloads() if isinstance(p, ToolResultCommitted)]
        assert [result.status for result in results] == ["refused"]
        assert "Ask the user: No money for speech." in str(results[0].output["message"])
        purse.allowed.add("speech")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
        await room.control.say("say it aloud", "inb_3")
        await room.answer(3)
    assert room.control.types().count("budget_granted") == 1
    spoken = [p for p in room.control.payloads() if isinstance(p, ToolResultCommitted)][-1]
    assert spoken.status == "success"
    assert spoken.usage[0].reservation in purse.reserved


async def test_a_failed_transcription_gives_its_money_back(room: Room) -> None:
    purse = limit(room, "transcription", "chat", "speech")
    room.speech.queued.append(openai_error(400, "x", "The audio is corrupt"))
    async with running_agent(room.control):
        await room.says("water the fig")
        await room.answer()
    assert purse.kinds() == ["transcription"]
    assert purse.released == list(purse.reserved)
