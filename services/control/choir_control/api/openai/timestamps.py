"""Transcriptions with times: what endpoints return in `verbose_json`, and subtitles made of it. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from choir_common.wire.model import JsonObject

MAX_PARTS = 50_000


@dataclass(frozen=True, slots=True)
class TimedText:
    """A part of a transcription; the times are in seconds of the audio."""

    start_s: float
    end_s: float
    text: str


def read_parts(answer: JsonObject, key: str, text_key: str) -> tuple[TimedText, ...]:
    """Return the parts with valid times of a list of an endpoint's answer, such as `segments`."""
    value = answer.get(key)
    entries = value[:MAX_PARTS] if isinstance(value, list) else []
    return tuple(
        part for entry in entries if isinstance(entry, dict) for part in _read(entry, text_key)
    )


def _read(entry: Mapping[str, object], text_key: str) -> Iterator[TimedText]:
    start, end, text = entry.get("start"), entry.get("end"), entry.get(text_key)
    if not isinstance(start, int | float) or not isinstance(end, int | float):
        return
    if 0 <= start <= end and math.isfinite(end) and isinstance(text, str):
        yield TimedText(float(start), float(end), text)


def as_srt(parts: Sequence[TimedText]) -> str:
    """Return subtitles in SubRip's format."""
    blocks = (
        f"{number}\n{_clock(part.start_s, ',')} --> {_clock(part.end_s, ',')}\n{_line(part)}\n"
        for number, part in enumerate(parts, start=1)
    )
    return "\n".join(blocks)


def as_vtt(parts: Sequence[TimedText]) -> str:
    """Return subtitles in the format WebVTT."""
    blocks = (
        f"{_clock(part.start_s, '.')} --> {_clock(part.end_s, '.')}\n{_line(part)}\n"
        for part in parts
    )
    return "\n".join(("WEBVTT\n", *blocks))


def _line(part: TimedText) -> str:
    """Return the text in one line; the arrow would be read as another time."""
    return " ".join(part.text.split()).replace("-->", "->")


def _clock(seconds: float, point: str) -> str:
    total_ms = round(seconds * 1000)
    minutes, ms = divmod(total_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{ms // 1000:02}{point}{ms % 1000:03}"
