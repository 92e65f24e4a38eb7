"""The model and voice of an agent, and the configured alternatives: read and changed over `/v1`."""

from typing import Literal

from choir_common.wire.model import Name, Wire


class ModelView(Wire):
    """A configured language model or text-to-speech provider."""

    name: str
    kind: Literal["llm", "tts"]
    provider: str
    model: str
    endpoint: str


class VoiceView(Wire):
    """A configured voice profile."""

    name: str
    tts: str
    voice_id: str
    output_format: str


class AgentChoices(Wire):
    """An agent's current models and voice: those of its session, otherwise the defaults of a start."""

    agent_id: str
    session_id: str | None
    llm: str
    model: str | None
    """The provider's name of the model; None if `llm` is no longer configured."""
    core_llm: str | None
    voice_profile: str | None
    changed: tuple[str, ...] = ()
    """Fields that `model set` or `voice set` changed; a restart reverts them."""


class SetModel(Wire):
    """Use this model from the next call on."""

    llm: Name


class SetVoice(Wire):
    """Use this voice from the next speech output on."""

    voice_profile: Name
