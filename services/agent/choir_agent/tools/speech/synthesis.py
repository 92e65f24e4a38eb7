"""Speech synthesis: one request, whose audio is streamed into a file of the workspace, all or nothing."""

import asyncio
import os
from dataclasses import dataclass

import httpx2

from choir_agent.budgets.money import UNLIMITED, MoneyReserver, PlannedCall
from choir_agent.tools.api_client import (
    MAX_RETRY_WAIT_S,
    TOO_MANY_REQUESTS,
    ApiClient,
    ApiRequest,
    ApiResponse,
    ApiService,
    retry_delay_s,
)
from choir_agent.tools.atomic_file import AtomicFile
from choir_agent.tools.speech.providers import SpeechRequest, build_request, speech_error
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.speech.ogg import CAPTURE, is_ogg, read_opus_seconds
from choir_common.wire.speech import SpeechUsage

TIMEOUT_S = 120.0
MAX_AUDIO_BYTES = 20_000_000
MAX_ERROR_BYTES = 20_000
PIECE = 65_536
EXTENSIONS = {
    "mp3": "mp3",
    "opus": "ogg",
    "pcm": "pcm",
    "wav": "wav",
    "ulaw": "ulaw",
    "alaw": "alaw",
    "flac": "flac",
    "aac": "aac",
}


@dataclass(frozen=True, slots=True)
class SpeechFile:
    """A file of the workspace with a spoken text."""

    path: str
    size: int
    is_voice_note: bool
    """Whether it is an Ogg file, which channels play as a voice message."""
    usage: SpeechUsage


class SpeechSynthesizer:
    """Client of the providers of `tts`."""

    def __init__(
        self, workspace: Workspace, web: ApiClient, max_audio_bytes: int = MAX_AUDIO_BYTES
    ) -> None:
        self._workspace = workspace
        self._web = web
        self._max_audio_bytes = max_audio_bytes

    async def save(
        self,
        speech: SpeechRequest,
        path: str,
        *,
        timeout_s: float = TIMEOUT_S,
        money: MoneyReserver = UNLIMITED,
        job_id: str | None = None,
    ) -> SpeechFile:
        """Save the spoken text as `path` plus the extension of its format.

        Raises ToolFailed, or BudgetExceeded before anything is sent.
        """
        service, call = speech.service, build_request(speech)
        path = f"{path}.{EXTENSIONS.get(speech.output_format.partition('_')[0], 'audio')}"
        # File operations run in threads so that a slow disk does not delay heartbeats.
        draft = await asyncio.to_thread(self._workspace.create_atomic_file, path)
        planned = PlannedCall(
            kind="speech",
            name=speech.voice.profile.tts,
            job_id=job_id,
            timeout_s=2 * timeout_s + MAX_RETRY_WAIT_S,
            characters=len(speech.text),
        )
        try:
            async with money.reserve(planned) as reservation:
                wait_s = await self._receive(service, call, draft, timeout_s, may_wait=True)
                if wait_s is not None:
                    await asyncio.sleep(wait_s)
                    await self._receive(service, call, draft, timeout_s, may_wait=False)
            if draft.size == 0:
                raise ToolFailed("bad_answer", f"{service.name} sent no audio.")
            await asyncio.to_thread(draft.commit)
        finally:
            draft.discard()
        is_voice_note, seconds = await asyncio.to_thread(self._examine, path)
        usage = SpeechUsage(
            kind="speech",
            name=speech.voice.profile.tts,
            model=speech.voice.tts.model_id,
            audio_seconds=seconds,
            characters=len(speech.text),
            reservation=reservation.id,
        )
        return SpeechFile(path, draft.size, is_voice_note, usage)

    async def _receive(
        self,
        service: ApiService,
        call: ApiRequest,
        draft: AtomicFile,
        timeout_s: float,
        *,
        may_wait: bool,
    ) -> float | None:
        """Receive the audio, or return how many seconds to wait before the retry."""
        async with self._web.stream(service, call, timeout_s) as response:
            if response.status_code == TOO_MANY_REQUESTS and may_wait:
                wait_s = retry_delay_s(response.headers, timeout_s)
                if wait_s is not None:
                    return wait_s
            if response.status_code != httpx2.codes.OK:
                raise await _failed(service, response)
            kind = response.headers.get("content-type", "")
            if not kind.startswith(("audio/", "application/octet-stream")):
                raise ToolFailed(
                    "bad_answer", f"{service.name} sent {kind or 'nothing'}, not audio."
                )
            await self._fill(draft, response)
        return None

    async def _fill(self, draft: AtomicFile, response: httpx2.Response) -> None:
        async for chunk in response.aiter_raw(PIECE):
            if draft.size + len(chunk) > self._max_audio_bytes:
                raise ToolFailed(
                    "too_large", f"The audio has more than {self._max_audio_bytes} bytes."
                )
            await asyncio.to_thread(draft.write, chunk)

    def _examine(self, path: str) -> tuple[bool, float | None]:
        """Return whether the file is an Ogg file, and its duration."""
        descriptor = self._workspace.open_file(path)
        try:
            return is_ogg(os.pread(descriptor, len(CAPTURE), 0)), read_opus_seconds(descriptor)
        finally:
            os.close(descriptor)


async def _failed(service: ApiService, response: httpx2.Response) -> ToolFailed:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    return speech_error(service, ApiResponse(response.status_code, response.headers, bytes(body)))
