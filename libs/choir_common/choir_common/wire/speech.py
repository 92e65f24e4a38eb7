"""Speech in the log: what was transcribed or spoken, by which model, and how much of it.

Used by events and attachments. `SpeechUsage` has the quantities, not the cost.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import WireModel


class SpeechUsage(WireModel):
    """One transcription or speech synthesis, with the quantities that providers charge for.

    A quantity that neither the provider nor the file states is None, never zero.
    """

    kind: Literal["transcription", "speech"]
    name: str
    """The entry in `transcription` or `tts` of config.json."""
    model: str
    """The provider's name of the model."""
    audio_seconds: float | None = Field(default=None, ge=0)
    """Duration of the audio."""
    characters: int | None = Field(default=None, ge=0)
    """Characters of the spoken text; None for a transcription."""
    input_tokens: int | None = Field(default=None, ge=0)
    """As the provider reported."""
    audio_input_tokens: int | None = Field(default=None, ge=0)
    """Those of the input tokens that are audio, as the provider reported."""
    output_tokens: int | None = Field(default=None, ge=0)
    """As the provider reported."""
    reservation: str = ""
    """The reservation of money that this call settles."""


class Transcription(WireModel):
    """The transcription of a voice message; the words themselves are in the text of its message."""

    model: str = ""
    """The provider's name of the model; empty if none is configured."""
    seconds: float | None = Field(default=None, ge=0)
    """Duration of the audio; None if unknown."""
    language: str = ""
    """The language that the provider recognised, as it writes it."""
    problem: str = ""
    """Why there is no transcript, and what to do, in sentences; empty if there is one."""

    @property
    def is_missing(self) -> bool:
        """Return whether a configured model was asked and there is no transcript."""
        return bool(self.model and self.problem)
