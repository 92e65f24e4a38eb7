"""`choir.tts.speak`: convert a text to speech with the agent's voice and save the audio file.

Runs under lock `choirtmp` X, after the commitment is durable. Uses the voice profile in the call's settings.
The audio is streamed into `.choirtmp/send/`, from where it can be sent.
"""

import asyncio
import re

import httpx2
import orjson
from pydantic import JsonValue

from choir_agent.tools.api_client import (
    MAX_RETRY_WAIT_S,
    TOO_MANY_REQUESTS,
    ApiClient,
    ApiRequest,
    ApiResponse,
    ApiService,
    error_of_response,
    redacted_excerpt,
    retry_delay_s,
)
from choir_agent.tools.atomic_file import AtomicFile
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import SEND_DIR, Workspace
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.config import VoiceBinding
from choir_common.wire.model import JsonObject

TIMEOUT_S = 120.0
MAX_CHARS = 5_000
MAX_AUDIO_BYTES = 20_000_000
MAX_ERROR_BYTES = 20_000
FILE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
QUOTA_CODES = ("quota", "credits")
EXTENSIONS = {
    "mp3": "mp3",
    "opus": "ogg",
    "pcm": "pcm",
    "wav": "wav",
    "ulaw": "ulaw",
    "alaw": "alaw",
}
_VOICE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

MANIFEST = ToolManifest(
    LlmView(
        name="choir.tts.speak",
        description=(
            "Speak a text with your voice and save the audio in .choirtmp/send/, from where it can be "
            "sent to the user. `name` is the file's name without extension."
        ),
        parameters={
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS},
                "name": {"type": "string", "pattern": FILE_NAME_PATTERN},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        # The request, one wait, and the request again.
        timeout_ms=int((2 * TIMEOUT_S + MAX_RETRY_WAIT_S) * 1000) + 5_000,
        # Every call costs money.
        side_effect="external",
        idempotent=False,
        locks=(LockTemplate("choirtmp", "X"),),
        secret_resources=("voice_profile",),
    ),
)


class TtsSpeakTool:
    """Speech synthesis by ElevenLabs."""

    manifest = MANIFEST

    def __init__(
        self, workspace: Workspace, web: ApiClient, max_audio_bytes: int = MAX_AUDIO_BYTES
    ) -> None:
        self._workspace = workspace
        self._web = web
        self._max_audio_bytes = max_audio_bytes

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Save the audio; raises ToolFailed if no voice is configured, or with the service's error."""
        service, voice = _service(context)
        path = _path(context, arguments, voice.profile.output_format)
        text = str(arguments["text"])
        call = ApiRequest(
            "POST",
            f"/text-to-speech/{voice.profile.voice_id}",
            {"output_format": voice.profile.output_format},
            {
                "text": text,
                "model_id": voice.tts.model_id,
                "voice_settings": voice.profile.voice_settings.model_dump(),
            },
            effect=True,
        )
        size = await self._save(service, call, path)
        output: JsonObject = {
            "path": path,
            "bytes": size,
            "format": voice.profile.output_format,
            "characters": len(text),
        }
        return ToolOutput(output, f"{size} bytes of speech saved in {path}")

    async def _save(self, service: ApiService, call: ApiRequest, path: str) -> int:
        """Stream the audio into its file, which is created only if complete; return its size in bytes."""
        # File operations run in threads so that a slow disk does not delay heartbeats.
        draft = await asyncio.to_thread(self._workspace.create_atomic_file, path)
        try:
            wait_s = await self._receive(service, call, draft, may_wait=True)
            if wait_s is not None:
                await asyncio.sleep(wait_s)
                await self._receive(service, call, draft, may_wait=False)
            if draft.size == 0:
                raise ToolFailed("bad_answer", "ElevenLabs sent no audio.")
            await asyncio.to_thread(draft.commit)
        finally:
            draft.discard()
        return draft.size

    async def _receive(
        self, service: ApiService, call: ApiRequest, draft: AtomicFile, *, may_wait: bool
    ) -> float | None:
        """Receive the audio, or return how many seconds to wait before the retry."""
        async with self._web.stream(service, call, TIMEOUT_S) as response:
            if response.status_code == TOO_MANY_REQUESTS and may_wait:
                wait_s = retry_delay_s(response.headers, TIMEOUT_S)
                if wait_s is not None:
                    return wait_s
            if response.status_code != 200:
                raise await _failed(service, response)
            kind = response.headers.get("content-type", "")
            if not kind.startswith(("audio/", "application/octet-stream")):
                raise ToolFailed("bad_answer", f"ElevenLabs sent {kind or 'nothing'}, not audio.")
            await self._fill(draft, response)
        return None

    async def _fill(self, draft: AtomicFile, response: httpx2.Response) -> None:
        async for chunk in response.aiter_raw(65_536):
            if draft.size + len(chunk) > self._max_audio_bytes:
                raise ToolFailed(
                    "too_large", f"The audio has more than {self._max_audio_bytes} bytes."
                )
            await asyncio.to_thread(draft.write, chunk)


def _service(context: CallContext) -> tuple[ApiService, VoiceBinding]:
    voice = None if context.settings is None else context.settings.voice
    if voice is None:
        raise ToolFailed(
            "not_configured",
            "This agent has no voice: the user adds one under `tts` and `voice_profiles` in "
            "config.json and names it in the agent's defaults.",
        )
    key = context.secrets.get("voice_profile")
    if not key:
        raise ToolFailed(
            "no_secret", f"The secret `{voice.tts.secret}` has no value; the user sets it."
        )
    if not _VOICE_ID.fullmatch(voice.profile.voice_id):
        raise ToolFailed("not_configured", "The voice_id of the voice profile is malformed.")
    return ApiService(
        "ElevenLabs", voice.tts.endpoint, voice.tts.secret, key, {"xi-api-key": key}
    ), voice


def _path(context: CallContext, arguments: JsonObject, output_format: str) -> str:
    name = str(arguments.get("name", f"speech-{context.call_id[-12:]}"))
    # Checked again although the schema has the pattern: the name becomes part of a path.
    if not re.fullmatch(FILE_NAME_PATTERN, name):
        raise ToolFailed("bad_input", "A name must have 1 to 64 letters, digits, - and _.")
    extension = EXTENSIONS.get(output_format.partition("_")[0], "audio")
    return f"{SEND_DIR}/{name}.{extension}"


async def _failed(service: ApiService, response: httpx2.Response) -> ToolFailed:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    code, message = _parse_error(bytes(body))
    status = response.status_code
    # ElevenLabs reports an exhausted quota with 401, like a wrong key.
    if any(word in code for word in QUOTA_CODES):
        return ToolFailed(
            "quota_exceeded",
            f"The ElevenLabs quota is used up: {redacted_excerpt(message, service)}",
        )
    if status in (400, 404) and "voice" in code:
        return ToolFailed(
            "not_found", f"ElevenLabs does not know the voice: {redacted_excerpt(message, service)}"
        )
    if status == 422:
        return ToolFailed(
            "bad_input", f"ElevenLabs rejected the request: {redacted_excerpt(message, service)}"
        )
    return error_of_response(service, ApiResponse(status, response.headers, b""), message)


def _parse_error(body: bytes) -> tuple[str, str]:
    """Return an error's code and message, from any of ElevenLabs's error formats."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    detail: JsonValue = answer.get("detail") if isinstance(answer, dict) else None
    match detail:
        case str():
            return "", detail
        case dict():
            code = detail.get("code") or detail.get("status") or ""
            return str(code), str(detail.get("message") or "")
        case list():
            faults = [item for item in detail if isinstance(item, dict)]
            return "", "; ".join(f"{_where(item)}: {item.get('msg')}" for item in faults)
    return "", ""


def _where(fault: JsonObject) -> str:
    where = fault.get("loc")
    return "/".join(str(part) for part in where) if isinstance(where, list) else "input"
