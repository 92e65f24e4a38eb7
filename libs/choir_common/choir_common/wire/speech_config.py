"""Parts of `config`: speech synthesis, voices and transcription."""

from typing import Literal

from pydantic import Field, model_validator

from choir_common.i18n import _
from choir_common.wire.model import Name, WireModel
from choir_common.wire.money import SpeechPrices, TranscriptionPrices

LANGUAGE_PATTERN = r"^[a-z]{2,3}$"
DIRECTORY_PATTERN = r"^[/~]"
SpeechProvider = Literal["elevenlabs", "openai"]
"""`openai` is every endpoint with OpenAI's `/audio/speech`."""


class TtsConfig(WireModel):
    """A text-to-speech provider."""

    provider: SpeechProvider = "elevenlabs"
    """The provider's API; `openai` for every endpoint with OpenAI's `/audio/speech`."""
    model_id: str
    """The provider's name of the model."""
    endpoint: str
    """Base URL, up to `/v1`."""
    secret: Name | None = None
    """The name of the secret with the key; only an OpenAI-compatible endpoint may work without one."""
    prices: SpeechPrices | None = None
    """Its prices; null: those of Choir's price table, if it lists the model."""

    @model_validator(mode="after")
    def _check_secret(self) -> "TtsConfig":
        if self.provider == "elevenlabs" and self.secret is None:
            raise ValueError(_("ElevenLabs needs a key: name its secret in `secret`"))
        return self


class VoiceSettings(WireModel):
    """Voice parameters; the provider defines their ranges. OpenAI-compatible endpoints only have `speed`."""

    stability: float = Field(default=0.5, ge=0, le=1)
    """Lower is more expressive, higher is more even."""
    similarity_boost: float = Field(default=0.75, ge=0, le=1)
    """How closely the output follows the original voice."""
    style: float = Field(default=0.0, ge=0, le=1)
    """Exaggeration of the voice's style; increases latency."""
    use_speaker_boost: bool = True
    """Prefer similarity to the original voice over speed."""
    speed: float = Field(default=1.0, ge=0.5, le=2)
    """Speaking rate; 1.0 is normal."""


class VoiceProfileConfig(WireModel):
    """A named voice of a TTS provider."""

    tts: Name
    """A name in `tts`."""
    voice_id: str
    """The provider's id of the voice."""
    output_format: str = "mp3_44100_128"
    """The provider's name of the audio format; OpenAI-compatible endpoints get the part before `_`."""
    voice_settings: VoiceSettings = VoiceSettings()
    """Voice parameters."""


class VoiceBinding(WireModel):
    """An agent's voice profile and its TTS provider."""

    profile: VoiceProfileConfig
    tts: TtsConfig


class TranscriptionConfig(WireModel):
    """A model that transcribes voice messages, behind OpenAI's `/audio/transcriptions`."""

    model: str
    """The provider's name of the model."""
    endpoint: str = Field(pattern=r"^https?://\S+$")
    """Base URL, up to `/v1`."""
    secret: Name | None = None
    """The name of the secret with the key; null for an endpoint without one."""
    language: str | None = Field(default=None, pattern=LANGUAGE_PATTERN)
    """The language that is spoken (ISO 639, such as `de`); null: the model recognises it."""
    max_seconds: int = Field(default=1_200, ge=1)
    """The longest voice message to transcribe: 20 minutes by default."""
    timeout_ms: int = Field(default=60_000, ge=1_000)
    """Time for a transcription with all its retries; the user waits meanwhile."""
    model_dir: str | None = Field(default=None, pattern=DIRECTORY_PATTERN)
    """Directory of a faster-whisper model: `choirctl up` then serves it at `endpoint`, without internet."""
    prices: TranscriptionPrices | None = None
    """Its prices; null: those of Choir's price table, if it lists the model. A model of one's own is free."""


class TranscriptionBinding(WireModel):
    """The transcription model of an agent, and its name in config.json."""

    name: str
    config: TranscriptionConfig
