"""Which model and voice an agent uses, and which there are (spec 17.1): read and changed over `/v1`."""

from typing import Literal

from choir_common.wire.model import Name, Wire


class ModelView(Wire):
    """A language model or a text-to-speech provider of the configuration."""

    name: str
    kind: Literal["llm", "tts"]
    provider: str
    model: str
    endpoint: str


class VoiceView(Wire):
    """A voice profile of the configuration."""

    name: str
    tts: str
    voice_id: str
    output_format: str


class AgentChoices(Wire):
    """What an agent thinks and speaks with: its session's if it has one, else what a start would choose."""

    agent_id: str
    session_id: str | None
    llm: str
    model: str | None
    """The provider's name of the model; None when `llm` has left the configuration."""
    core_llm: str | None
    voice_profile: str | None
    changed: tuple[str, ...] = ()
    """What `model set` or `voice set` changed; a restart changes it back."""


class SetModel(Wire):
    """Think with this model from the next call on."""

    llm: Name


class SetVoice(Wire):
    """Speak with this voice from the next time on."""

    voice_profile: Name
