"""Requests to `/audio/transcriptions`: the words of an audio file, by a model of config.json."""

import re
from dataclasses import replace

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import FormData, UploadFile

from choir_common.errors import InvalidRequest, TooLarge
from choir_common.speech.transcription import MAX_AUDIO_BYTES
from choir_common.wire.speech_config import LANGUAGE_PATTERN
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.timestamps import as_srt, as_vtt
from choir_control.api.openai.transcriber import AudioFile, TimedAnswer, TranscriptionService
from choir_control.api_clients.service import ApiClientService
from choir_control.configuration.api_clients import ApiClient

TIMED_FORMATS = ("verbose_json", "srt", "vtt")
FORMATS = ("json", "text", *TIMED_FORMATS)
GRANULARITIES = ("segment", "word")
MAX_FIELDS = 20
MAX_FIELD_BYTES = 10_000
DEFAULT_MIME = "application/octet-stream"
_MIME = re.compile(r"[a-z]+/[a-z0-9.+-]{1,100}")
_LANGUAGE = re.compile(LANGUAGE_PATTERN)


class TranscriptionHandler:
    """Handler of the requests."""

    def __init__(
        self,
        clients: ApiClientService,
        conversations: ConversationResolver,
        transcriptions: TranscriptionService,
    ) -> None:
        self._clients = clients
        self._conversations = conversations
        self._transcriptions = transcriptions

    async def respond(self, request: Request) -> Response:
        """Return the words. Raises InvalidRequest, TooLarge, and the errors of the service."""
        client: ApiClient = request.state.client
        self._conversations.require_scope(client, "transcriptions")
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise InvalidRequest("file: send a form (multipart/form-data) with the file.")
        with self._clients.admit(client):
            # a large file waits on disk until there is a place for it in memory
            async with request.form(
                max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
            ) as form:
                model = _read_field(form, "model")
                if not model:
                    raise InvalidRequest("model: name a transcription model.")
                binding = self._transcriptions.find(model)
                style = _read_format(form)
                with self._transcriptions.slot():
                    file = replace(
                        await _read_file(form), granularities=_read_granularities(form, style)
                    )
                    words = await self._transcriptions.transcribe(binding, file)
        return _render(words, style)


def _read_format(form: FormData) -> str:
    """Return the format of the answer; raises InvalidRequest for what is not available."""
    style = _read_field(form, "response_format") or "json"
    if style not in FORMATS:
        raise InvalidRequest(f"response_format: one of {', '.join(FORMATS)}.")
    if (_read_field(form, "stream") or "false").lower() not in ("false", "0"):
        raise InvalidRequest("stream: the words come in one piece; leave it out.")
    return style


def _read_granularities(form: FormData, style: str) -> tuple[str, ...]:
    """Return the parts whose times are wanted; raises InvalidRequest."""
    names = [str(it) for it in form.getlist("timestamp_granularities[]")]
    if any(it not in GRANULARITIES for it in names):
        raise InvalidRequest(f"timestamp_granularities: {' or '.join(GRANULARITIES)}.")
    if style not in TIMED_FORMATS:
        if names:
            raise InvalidRequest("timestamp_granularities: only with response_format verbose_json.")
        return ()
    if style != "verbose_json":
        return ("segment",)
    return tuple(it for it in GRANULARITIES if it in names) or ("segment",)


async def _read_file(form: FormData) -> AudioFile:
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise InvalidRequest("file: the form has no file in the field `file`.")
    if upload.size is not None and upload.size > MAX_AUDIO_BYTES:
        raise TooLarge(f"file: it has more than {MAX_AUDIO_BYTES // 1_000_000} MB.")
    language = _read_field(form, "language") or None
    if language is not None and not _LANGUAGE.fullmatch(language):
        raise InvalidRequest("language: a code such as `de` (ISO 639).")
    content = await upload.read()
    if not content:
        raise InvalidRequest("file: the file is empty.")
    mime = (upload.content_type or "").partition(";")[0].strip().lower()
    return AudioFile(
        name=upload.filename or "",
        mime=mime if _MIME.fullmatch(mime) else DEFAULT_MIME,
        content=content,
        language=language,
    )


def _read_field(form: FormData, name: str) -> str | None:
    value = form.get(name)
    if isinstance(value, UploadFile):
        raise InvalidRequest(f"{name}: a text, not a file.")
    return value


def _render(transcript: TimedAnswer, style: str) -> Response:
    words = transcript.spoken
    if style == "text":
        return PlainTextResponse(f"{words.text}\n")
    if style == "srt":
        return PlainTextResponse(as_srt(transcript.segments), media_type="application/x-subrip")
    if style == "vtt":
        return PlainTextResponse(as_vtt(transcript.segments), media_type="text/vtt")
    answer: dict[str, object] = {"text": words.text}
    if style == "verbose_json":
        answer |= _details(transcript)
    if words.seconds is not None:
        answer["usage"] = {"type": "duration", "seconds": words.seconds}
    return JSONResponse(answer)


def _details(transcript: TimedAnswer) -> dict[str, object]:
    """Return the further fields of `verbose_json`."""
    spoken = transcript.spoken
    details: dict[str, object] = {
        "task": "transcribe",
        "language": spoken.language,
        "duration": spoken.seconds or 0.0,
    }
    if transcript.segments:
        details["segments"] = [
            {"id": number, "start": part.start_s, "end": part.end_s, "text": part.text}
            for number, part in enumerate(transcript.segments)
        ]
    if transcript.words:
        details["words"] = [
            {"word": part.text, "start": part.start_s, "end": part.end_s}
            for part in transcript.words
        ]
    return details
