"""Speech recognition with faster-whisper and a model directory. Blocking; call it in a thread."""

import io
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _

MODEL_FILES = ("model.bin", "tokenizer.json")
"""Without the tokenizer, faster-whisper would download one."""
INSTALL = "pip install 'choir-local[transcription]'"
UNREADABLE = (ValueError, OSError, IndexError, EOFError)
"""What faster-whisper and PyAV raise for content that is not audio."""


@dataclass(frozen=True, slots=True)
class RecognizedSpeech:
    """What was said, and in which language."""

    text: str
    language: str
    seconds: float


class Recognition(Protocol):
    """The recognition of one file, part by part, so that those of several files can take turns."""

    def recognize_part(self) -> bool:
        """Recognise the next part, half a minute of audio at most; return whether there was one.

        Raises InvalidRequest for content that is not audio.
        """
        ...

    @property
    def speech(self) -> RecognizedSpeech:
        """Return what was recognised so far."""
        ...


class SpeechRecognizer(Protocol):
    """A model that recognises speech."""

    def begin(self, audio: bytes, language: str | None) -> Recognition:
        """Read an audio file and begin its recognition.

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


class WhisperRecognition:
    """The recognition of one file by faster-whisper, which recognises a part when it is iterated."""

    def __init__(self, segments: Iterable[_Segment], info: _Info) -> None:
        self._segments: Iterator[_Segment] = iter(segments)
        self._info = info
        self._texts: list[str] = []

    def recognize_part(self) -> bool:
        """Recognise the next part; return whether there was one. Raises InvalidRequest."""
        try:
            segment = next(self._segments, None)
        except UNREADABLE as error:
            raise _not_audio(error) from error
        if segment is None:
            return False
        self._texts.append(segment.text)
        return True

    @property
    def speech(self) -> RecognizedSpeech:
        """Return what was recognised so far."""
        text = "".join(self._texts).strip()
        return RecognizedSpeech(text, self._info.language, self._info.duration)


class WhisperRecognizer:
    """faster-whisper with the model of a directory, which is loaded when it is first needed."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir.expanduser()
        self._model: _WhisperModel | None = None
        self._loading = threading.Lock()

    def begin(self, audio: bytes, language: str | None) -> WhisperRecognition:
        """Read an audio file and begin its recognition.

        Raises NotFound without a usable model, InvalidRequest for content that is not audio.
        """
        with self._loading:
            model = self._model = self._model or self._load()
        try:
            # the detection of voice activity keeps the model from inventing words in silence
            segments, info = model.transcribe(io.BytesIO(audio), language=language, vad_filter=True)
        except UNREADABLE as error:
            raise _not_audio(error) from error
        return WhisperRecognition(segments, info)

    def _load(self) -> _WhisperModel:
        try:
            # an optional extra: imported only where a model is configured
            from faster_whisper import (  # type: ignore[import-not-found] # noqa: PLC0415
                WhisperModel,
            )
        except ImportError as error:
            raise NotFound(
                _("faster-whisper is not installed: {command}").format(command=INSTALL)
            ) from error
        missing = [name for name in MODEL_FILES if not (self._model_dir / name).is_file()]
        if missing:
            names = ", ".join(missing)
            raise NotFound(
                _("{model_dir} is no faster-whisper model: {names} is missing.").format(
                    model_dir=self._model_dir, names=names
                )
            )
        try:
            model: _WhisperModel = WhisperModel(
                str(self._model_dir), device="auto", compute_type="auto", local_files_only=True
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise NotFound(
                _("The model in {model_dir} cannot be loaded: {error}").format(
                    model_dir=self._model_dir, error=error
                )
            ) from error
        return model


def _not_audio(error: Exception) -> InvalidRequest:
    # not str(error) of PyAV: "[Errno 1094995529] Invalid data found when processing input: '<none>'"
    reason = getattr(error, "strerror", None) or _("it has no sound")
    return InvalidRequest(_("This is not audio that can be read: {reason}.").format(reason=reason))
