"""An agent with a speech service, for tests of voice messages."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from choir_common.eventlog.chain import find_break
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import (
    TranscriptionBinding,
    TranscriptionConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.events import Reply, UserMessageStarted
from choir_common.wire.signals import UserMessageSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import DM, ControlStandIn, run_control
from tests.support.fake_speech import FakeSpeech, fake_speech
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
