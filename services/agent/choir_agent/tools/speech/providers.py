"""Requests and errors of the providers of `tts`: ElevenLabs, and OpenAI's `/audio/speech`. Pure.

A provider is one function that builds its request, one row in `build_request`, and its form of errors.
"""

import re
from dataclasses import dataclass
from typing import assert_never

import orjson
from pydantic import JsonValue

from choir_agent.tools.api_client import (
    ApiRequest,
    ApiResponse,
    ApiService,
    error_of_response,
    redacted_excerpt,
)
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.config import VoiceBinding
from choir_common.wire.model import JsonObject

QUOTA_CODES = ("quota", "credits")
UNPROCESSABLE = 422
VOICE_NOTE_FORMATS = {"elevenlabs": "opus_48000_64", "openai": "opus"}
"""The format of each provider that channels play as a voice message: Ogg Opus."""
_VOICE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text to speak with a voice."""

    voice: VoiceBinding
    key: str | None
    text: str
    output_format: str

    @property
    def service(self) -> ApiService:
        """Return the service to call; raises ToolFailed without its key."""
        tts, key = self.voice.tts, self.key or ""
        if tts.secret and not key:
            raise ToolFailed(
                "no_secret", f"The secret `{tts.secret}` has no value; the user sets it."
            )
        match tts.provider:
            case "elevenlabs":
                name, headers = "ElevenLabs", {"xi-api-key": key}
            case "openai":
                name = "The speech endpoint"
                headers = {"Authorization": f"Bearer {key}"} if key else {}
            case _:
                assert_never(tts.provider)
        return ApiService(name, tts.endpoint, tts.secret or "", key, headers)


def build_request(speech: SpeechRequest) -> ApiRequest:
    """Return the provider's request; raises ToolFailed for a malformed voice."""
    if not _VOICE_ID.fullmatch(speech.voice.profile.voice_id):
        raise ToolFailed("not_configured", "The voice_id of the voice profile is malformed.")
    match speech.voice.tts.provider:
        case "elevenlabs":
            return _elevenlabs_request(speech)
        case "openai":
            return _openai_request(speech)
        case _:
            assert_never(speech.voice.tts.provider)


def _elevenlabs_request(speech: SpeechRequest) -> ApiRequest:
    profile = speech.voice.profile
    body: JsonObject = {
        "text": speech.text,
        "model_id": speech.voice.tts.model_id,
        "voice_settings": profile.voice_settings.model_dump(),
    }
    query = {"output_format": speech.output_format}
    return ApiRequest("POST", f"/text-to-speech/{profile.voice_id}", query, body, effect=True)


def _openai_request(speech: SpeechRequest) -> ApiRequest:
    profile = speech.voice.profile
    body: JsonObject = {
        "model": speech.voice.tts.model_id,
        "input": speech.text,
        "voice": profile.voice_id,
        # `mp3_44100_128` is ElevenLabs's notation
        "response_format": speech.output_format.partition("_")[0],
    }
    if profile.voice_settings.speed != 1:
        body["speed"] = profile.voice_settings.speed
    return ApiRequest("POST", "/audio/speech", body=body, effect=True)


def speech_error(service: ApiService, answer: ApiResponse) -> ToolFailed:
    """Return the error for an unsuccessful response, in any of the providers' formats."""
    code, message = parse_error(answer.body)
    detail = redacted_excerpt(message, service)
    # ElevenLabs reports an exhausted quota with 401, like a wrong key.
    if any(word in code for word in QUOTA_CODES):
        return ToolFailed("quota_exceeded", f"The quota at {service.name} is used up: {detail}")
    if answer.status in (400, 404) and "voice" in code:
        return ToolFailed("not_found", f"{service.name} does not know the voice: {detail}")
    if answer.status == UNPROCESSABLE:
        return ToolFailed("bad_input", f"{service.name} rejected the request: {detail}")
    return error_of_response(service, answer, message)


def parse_error(body: bytes) -> tuple[str, str]:
    """Return an error's code and message: `detail` of ElevenLabs, `error` of OpenAI."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    if not isinstance(answer, dict):
        return "", ""
    detail: JsonValue = answer.get("detail") or answer.get("error")
    match detail:
        case str():
            return "", detail
        case dict():
            code = detail.get("code") or detail.get("status") or detail.get("type") or ""
            return str(code), str(detail.get("message") or "")
        case list():
            faults = [item for item in detail if isinstance(item, dict)]
            return "", "; ".join(f"{_where(item)}: {item.get('msg')}" for item in faults)
    return "", ""


def _where(fault: JsonObject) -> str:
    where = fault.get("loc")
    return "/".join(str(part) for part in where) if isinstance(where, list) else "input"
