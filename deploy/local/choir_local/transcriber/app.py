"""HTTP routes of the transcriber: one recognition at a time, with OpenAI's requests and responses."""

import asyncio
import email.parser
import email.policy
from dataclasses import dataclass

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.errors import InvalidRequest, NotFound
from choir_local.transcriber.recognizer import SpeechRecognizer

BODY_LIMIT = 26_000_000
"""Bytes; the same audio as at OpenAI, and the rest of the form."""
TEXT_FORMATS = ("json", "verbose_json")


@dataclass(frozen=True, slots=True)
class UploadedAudio:
    """The fields of a request that are used here."""

    audio: bytes
    language: str | None


def make_transcriber_app(recognizer: SpeechRecognizer) -> Starlette:
    """Return the application for a recognizer."""
    transcriber = Transcriber(recognizer)
    return Starlette(
        routes=[
            Route("/v1/audio/transcriptions", transcriber.transcribe, methods=["POST"]),
            Route("/livez", transcriber.get_livez),
        ],
    )


class Transcriber:
    """Request handlers for one recognizer."""

    def __init__(self, recognizer: SpeechRecognizer) -> None:
        self._recognizer = recognizer
        # a recognition uses all processors, so a second one would only slow down both
        self._turn = asyncio.Lock()

    async def transcribe(self, request: Request) -> Response:
        """Return the words of the uploaded file (POST /v1/audio/transcriptions)."""
        body = await _read_body(request)
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes.")
        try:
            upload = _parse_form(request.headers.get("content-type", ""), body)
            async with self._turn:
                speech = await asyncio.to_thread(
                    self._recognizer.recognize, upload.audio, upload.language
                )
        except InvalidRequest as error:
            return _error(400, error.message)
        except NotFound as error:
            # 422, not 503: a repetition would fail, too
            return _error(422, error.message)
        return _json(
            {
                "text": speech.text,
                "language": speech.language,
                "duration": speech.seconds,
                "usage": {"type": "duration", "seconds": speech.seconds},
            }
        )

    async def get_livez(self, _: Request) -> Response:
        """Report that the process runs (GET /livez)."""
        return _json({"status": "ok"})


def _parse_form(content_type: str, body: bytes) -> UploadedAudio:
    """Return the upload; raises InvalidRequest for a form without a file."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields: dict[str, bytes] = {}
    for part in message.iter_parts() if message.is_multipart() else ():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content
    audio, form = fields.get("file"), fields.get("response_format", b"json").decode("latin-1")
    if not audio:
        raise InvalidRequest("The form has no field `file`.")
    if form not in TEXT_FORMATS:
        raise InvalidRequest(f"response_format must be one of {', '.join(TEXT_FORMATS)}.")
    return UploadedAudio(audio, fields.get("language", b"").decode("latin-1") or None)


async def _read_body(request: Request) -> bytes | None:
    """Return the body, or None if it exceeds the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            return None
        parts.append(part)
    return b"".join(parts)


def _json(document: object, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
    return _json({"error": error}, status)
