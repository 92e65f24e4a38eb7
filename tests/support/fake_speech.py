"""A fake of OpenAI's `/audio/transcriptions` and `/audio/speech` that follows the public reference strictly.

It refuses what the reference does not allow, hears the words that `make_speech` put into a file, and speaks
in such files. Real HTTP over a real port.
"""

import asyncio
import contextlib
import email.parser
import email.policy
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from choir_common.http.listen import bind_tcp
from tests.support.fake_web_services import KEY
from tests.support.ogg import make_speech, words_of

TIMES = "timestamp_granularities[]"
FORM_FIELDS = {"file", "model", "response_format", "language", "prompt", "temperature", TIMES}
SPEECH_FIELDS = {"model", "input", "voice", "response_format", "speed", "instructions"}
EXTENSIONS = {"flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"}
FORMATS = {"mp3", "opus", "aac", "flac", "wav", "pcm"}
MAX_FILE, MAX_INPUT = 25_000_000, 4_096


@dataclass
class Heard:
    """One transcription that was requested."""

    fields: dict[str, str]
    file_name: str
    audio: bytes


@dataclass
class FakeSpeech:
    """The server; queued responses replace the usual ones."""

    port: int = 0
    key: str | None = KEY
    """None: no key is needed, as of a server of one's own."""
    heard: list[Heard] = field(default_factory=list)
    spoken: list[dict[str, object]] = field(default_factory=list)
    queued: list[Response] = field(default_factory=list)
    hears: asyncio.Event = field(default_factory=asyncio.Event)
    speaks: asyncio.Event = field(default_factory=asyncio.Event)
    """Requests are answered only while these are set."""
    _server: uvicorn.Server | None = None
    _task: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self.hears.set()
        self.speaks.set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Listen, after the first time on the same port."""
        routes = [
            Route("/v1/audio/transcriptions", self._transcribe, methods=["POST"]),
            Route("/v1/audio/speech", self._speak, methods=["POST"]),
        ]
        sock = bind_tcp("127.0.0.1", self.port, "nothing")
        self.port = sock.getsockname()[1]
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[sock]))

    async def stop(self) -> None:
        """Close the port."""
        if self._server is not None and self._task is not None:
            self.hears.set()
            self.speaks.set()
            self._server.should_exit = True
            await self._task
            self._server = None

    async def _transcribe(self, request: Request) -> Response:
        wrong = self._refuse(request)
        content_type = request.headers.get("content-type", "")
        if wrong is None and not content_type.startswith("multipart/form-data"):
            wrong = openai_error(400, "invalid_request_error", "expected multipart/form-data")
        if wrong is not None:
            return wrong
        heard = _parse(content_type, await request.body())
        if isinstance(heard, Response):
            return heard
        self.heard.append(heard)
        await self.hears.wait()
        if self.queued:
            return self.queued.pop(0)
        answer: dict[str, Any] = {"text": words_of(heard.audio)}
        if heard.fields["response_format"] == "verbose_json":
            answer |= _with_times(answer["text"], heard.fields.get(TIMES, "segment"))
        return JSONResponse({**answer, "usage": {"type": "duration", "seconds": 3}})

    async def _speak(self, request: Request) -> Response:
        wrong = self._refuse(request)
        if wrong is not None:
            return wrong
        body = await request.json()
        text, audio_format = body.get("input"), body.get("response_format", "mp3")
        faults = [
            *(f"Unknown parameter: '{name}'." for name in body.keys() - SPEECH_FIELDS),
            *(f"{name} is required" for name in {"model", "input", "voice"} - body.keys()),
        ]
        if not isinstance(text, str) or not 0 < len(text) <= MAX_INPUT:
            faults.append("input must have 1 to 4096 characters")
        if audio_format not in FORMATS or not 0.25 <= body.get("speed", 1) <= 4:
            faults.append("response_format or speed is invalid")
        if faults:
            return openai_error(400, "invalid_request_error", "; ".join(faults))
        self.spoken.append(body)
        await self.speaks.wait()
        if self.queued:
            return self.queued.pop(0)
        if audio_format == "opus":
            return Response(make_speech(text), media_type="audio/opus")
        return Response(b"\xff\xf3" + text.encode(), media_type="audio/mpeg")

    def _refuse(self, request: Request) -> Response | None:
        if self.key is None or request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        message = f"Incorrect API key provided: {shown}."
        return openai_error(401, "invalid_request_error", message, "invalid_api_key")


def _with_times(text: str, granularities: str) -> dict[str, Any]:
    """Return what whisper-1 adds in `verbose_json`: one second for each word."""
    words = text.split()
    times = [{"word": word, "start": at, "end": at + 1} for at, word in enumerate(words)]
    segment = {"id": 0, "start": 0.0, "end": float(len(words)), "text": f" {text}", "tokens": [1]}
    answer: dict[str, Any] = {"task": "transcribe", "language": "english", "duration": 3.5}
    answer |= {"segments": [segment]} if "segment" in granularities else {}
    return answer | ({"words": times} if "word" in granularities else {})


def openai_error(status: int, kind: str, message: str, code: str | None = None) -> Response:
    """Return an error in OpenAI's format."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return JSONResponse({"error": error}, status)


def _parse(content_type: str, body: bytes) -> Heard | Response:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    fields: dict[str, bytes] = {}
    file_name = ""
    for part in message.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes) and (name not in fields or name == TIMES)
        fields[name] = fields[name] + b"," + content if name in fields else content
        file_name = part.get_filename() or file_name
    audio = fields.pop("file", b"")
    texts = {name: value.decode() for name, value in fields.items()}
    if texts.keys() - FORM_FIELDS or not texts.get("model") or not audio:
        return openai_error(400, "invalid_request_error", f"wrong form: {sorted(texts)}")
    if file_name.rpartition(".")[2] not in EXTENSIONS:
        return openai_error(400, "invalid_request_error", "Invalid file format.")
    if len(audio) > MAX_FILE:
        return openai_error(413, "server_error", "Maximum content size limit exceeded")
    if texts.get("response_format", "json") not in ("json", "verbose_json"):
        return openai_error(400, "invalid_request_error", "response_format is not supported")
    return Heard(texts, file_name, audio)


@contextlib.asynccontextmanager
async def fake_speech(key: str | None = KEY) -> AsyncIterator[FakeSpeech]:
    """Serve both routes."""
    service = FakeSpeech(key=key)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()
