"""HTTP routes of the transcriber, with OpenAI's requests and responses.

Recognitions take turns part by part, so that a long file does not hold up a short one, and one whose client
has gone ends.
"""

import asyncio
import email.parser
import email.policy
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.errors import InvalidRequest, NotFound
from choir_local.transcriber.recognizer import RecognizedSpeech, SpeechRecognizer

CLIENT_CLOSED = 499
"""Nobody receives this status."""
BODY_LIMIT = 26_000_000
"""Bytes; the same audio as at OpenAI, and the rest of the form."""
MAX_RECOGNITIONS = 4
"""Files that are recognised in turns; 20 minutes of decoded audio take 77 MB."""
MAX_REQUESTS = 16
"""Requests with their files in memory; a client repeats what is refused."""
RETRY_AFTER_S = 5
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
        # a part uses all processors, so a second one would only slow down both; the lock is fair
        self._turn = asyncio.Lock()
        self._places = asyncio.Semaphore(MAX_RECOGNITIONS)
        self._requests = 0

    async def transcribe(self, request: Request) -> Response:
        """Return the words of the uploaded file (POST /v1/audio/transcriptions)."""
        if self._requests >= MAX_REQUESTS:
            message = f"{self._requests} files are being transcribed or wait. Try again later."
            return _error(503, message, {"Retry-After": str(RETRY_AFTER_S)})
        self._requests += 1
        try:
            return await self._answer(request)
        except InvalidRequest as error:
            return _error(400, error.message)
        except NotFound as error:
            # 422, not 503: a repetition would fail, too
            return _error(422, error.message)
        finally:
            self._requests -= 1

    async def _answer(self, request: Request) -> Response:
        body = await _read_body(request)
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes.")
        upload = _parse_form(request.headers.get("content-type", ""), body)
        async with self._places:
            speech = await self._recognize(request, upload)
        if speech is None:
            return Response(status_code=CLIENT_CLOSED)
        return _json(
            {
                "text": speech.text,
                "language": speech.language,
                "duration": speech.seconds,
                "usage": {"type": "duration", "seconds": speech.seconds},
            }
        )

    async def _recognize(self, request: Request, upload: UploadedAudio) -> RecognizedSpeech | None:
        """Return the words; None if the client has gone: its deadline passed, or the user cancelled."""
        if await request.is_disconnected():
            return None
        recognition = await asyncio.to_thread(self._recognizer.begin, upload.audio, upload.language)
        while not await request.is_disconnected():
            async with self._turn:
                if not await asyncio.to_thread(recognition.recognize_part):
                    return recognition.speech
        return None

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
    if audio is None:
        raise InvalidRequest("The form has no field `file`.")
    if not audio:
        raise InvalidRequest("The file is empty.")
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


def _json(
    document: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(orjson.dumps(document), status, headers, media_type="application/json")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
    return _json({"error": error}, status, headers)
