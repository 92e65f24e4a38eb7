"""Requests to OpenAI's `/audio/transcriptions`, and what their answers say. Pure.

Agents transcribe voice messages with it, and control the files of its clients.
"""

import math
from dataclasses import dataclass

from choir_common.wire.config import TranscriptionBinding, TranscriptionConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.speech import SpeechUsage

TRANSCRIPTION_PATH = "/audio/transcriptions"
MAX_AUDIO_BYTES = 25_000_000
"""The largest file that OpenAI accepts."""
EXTENSIONS = ("flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm")
MAX_LANGUAGE = 40


@dataclass(frozen=True, slots=True)
class SpokenWords:
    """The words of a file."""

    text: str
    seconds: float | None
    """Duration of the audio; None if neither the file nor the endpoint states it."""
    language: str
    usage: SpeechUsage


def form_fields(
    config: TranscriptionConfig, language: str | None = None, response_format: str = "json"
) -> dict[str, str]:
    """Return the fields of the form besides the file; `language` replaces the configured one."""
    fields = {"model": config.model, "response_format": response_format}
    spoken = language or config.language
    return fields if spoken is None else {**fields, "language": spoken}


def upload_name(name: str) -> str:
    """Return a file name whose extension endpoints know; the user's own name stays here."""
    extension = name.rpartition(".")[2].lower()
    return f"voice.{extension if extension in EXTENSIONS else 'ogg'}"


def too_long(config: TranscriptionConfig, name: str, seconds: float | None) -> str | None:
    """Return why a file is too long to transcribe; None if it is not, or if its duration is unknown."""
    if seconds is None or seconds <= config.max_seconds:
        return None
    return (
        f"it lasts {seconds:.0f} s, and the limit is {config.max_seconds} s "
        f"(`transcription.{name}.max_seconds`). Please send it in parts."
    )


def parse_answer(
    answer: JsonObject, binding: TranscriptionBinding, seconds: float | None, reservation: str
) -> SpokenWords | None:
    """Return the words and the usage; None if the answer has no `text`. `seconds` is what the file says."""
    text = answer.get("text")
    if not isinstance(text, str):
        return None
    counts = answer.get("usage")
    counts = counts if isinstance(counts, dict) else {}
    details = counts.get("input_token_details")
    details = details if isinstance(details, dict) else {}
    # `duration` is in the verbose format, which some servers always use
    reported = _number(counts.get("seconds")) or _number(answer.get("duration"))
    seconds = reported if seconds is None else seconds
    language = answer.get("language")
    usage = SpeechUsage(
        kind="transcription",
        name=binding.name,
        model=binding.config.model,
        audio_seconds=reported or seconds,
        input_tokens=_count(counts.get("input_tokens")),
        audio_input_tokens=_count(details.get("audio_tokens")),
        output_tokens=_count(counts.get("output_tokens")),
        reservation=reservation,
    )
    return SpokenWords(
        text=text.strip(),
        seconds=seconds,
        language=language[:MAX_LANGUAGE] if isinstance(language, str) else "",
        usage=usage,
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
