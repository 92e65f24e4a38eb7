"""Requests to `/audio/transcriptions`: the words of an audio file, by a model of config.json."""

import re

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import FormData, UploadFile

from choir_common.errors import InvalidRequest, TooLarge
from choir_common.speech.transcription import MAX_AUDIO_BYTES, SpokenWords
from choir_common.wire.speech_config import LANGUAGE_PATTERN
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.transcriber import AudioFile, TranscriptionService
from choir_control.api_clients.service import ApiClientService
from choir_control.configuration.api_clients import ApiClient

FORMATS = ("json", "text")
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
                    file = await _read_file(form)
                    words = await self._transcriptions.transcribe(binding, file)
        return _render(words, style)


def _read_format(form: FormData) -> str:
    """Return the format of the answer; raises InvalidRequest for what is not available."""
    style = _read_field(form, "response_format") or "json"
    if style not in FORMATS:
        raise InvalidRequest(f"response_format: {' or '.join(FORMATS)}; there are no timestamps.")
    if (_read_field(form, "stream") or "false").lower() not in ("false", "0"):
        raise InvalidRequest("stream: the words come in one piece; leave it out.")
    return style


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


def _render(words: SpokenWords, style: str) -> Response:
    if style == "text":
        return PlainTextResponse(f"{words.text}\n")
    answer: dict[str, object] = {"text": words.text}
    if words.seconds is not None:
        answer["usage"] = {"type": "duration", "seconds": words.seconds}
    return JSONResponse(answer)
