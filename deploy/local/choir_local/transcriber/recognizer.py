"""Speech recognition with faster-whisper and a model directory. Blocking; call it in a thread."""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_common.errors import InvalidRequest, NotFound

MODEL_FILES = ("model.bin", "tokenizer.json")
"""Without the tokenizer, faster-whisper would download one."""
INSTALL = "pip install 'choir-local[transcription]'"


@dataclass(frozen=True, slots=True)
class RecognizedSpeech:
    """What was said, and in which language."""

    text: str
    language: str
    seconds: float


class SpeechRecognizer(Protocol):
    """A model that recognises speech."""

    def recognize(self, audio: bytes, language: str | None) -> RecognizedSpeech:
        """Return the words of an audio file.

        Raises NotFound without a usable model, InvalidRequest for content that is not audio.
        """
        ...


class _Segment(Protocol):
    text: str


class _Info(Protocol):
    language: str
    duration: float


class _WhisperModel(Protocol):
    def transcribe(
        self, audio: io.BytesIO, *, language: str | None, vad_filter: bool
    ) -> tuple[Iterable[_Segment], _Info]: ...


class WhisperRecognizer:
    """faster-whisper with the model of a directory, which is loaded when it is first needed."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir.expanduser()
        self._model: _WhisperModel | None = None

    def recognize(self, audio: bytes, language: str | None) -> RecognizedSpeech:
        """Return the words of an audio file.

        Raises NotFound without a usable model, InvalidRequest for content that is not audio.
        """
        model = self._model = self._model or self._load()
        try:
            # the detection of voice activity keeps the model from inventing words in silence
            segments, info = model.transcribe(io.BytesIO(audio), language=language, vad_filter=True)
            text = "".join(segment.text for segment in segments)
        except (ValueError, OSError, IndexError, EOFError) as error:
            raise InvalidRequest(f"This is not audio that can be read: {error}") from error
        return RecognizedSpeech(text.strip(), info.language, info.duration)

    def _load(self) -> _WhisperModel:
        try:
            # an optional extra: imported only where a model is configured
            from faster_whisper import (  # type: ignore[import-not-found] # noqa: PLC0415
                WhisperModel,
            )
        except ImportError as error:
            raise NotFound(f"faster-whisper is not installed: {INSTALL}") from error
        missing = [name for name in MODEL_FILES if not (self._model_dir / name).is_file()]
        if missing:
            names = ", ".join(missing)
            raise NotFound(f"{self._model_dir} is no faster-whisper model: {names} is missing.")
        try:
            model: _WhisperModel = WhisperModel(
                str(self._model_dir), device="auto", compute_type="auto", local_files_only=True
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise NotFound(f"The model in {self._model_dir} cannot be loaded: {error}") from error
        return model
