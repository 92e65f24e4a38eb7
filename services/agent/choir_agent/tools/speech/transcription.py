"""Transcription of an audio file by OpenAI's `/audio/transcriptions`.

Servers without internet have it, too, for example Choir's own transcriber. A request has no effect at the
service, so failures that may pass are retried until the deadline.
"""

import asyncio
import os
from dataclasses import dataclass

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.budgets.money import UNLIMITED, MoneyReserver, PlannedCall
from choir_agent.tools.api_client import (
    ApiClient,
    ApiRequest,
    ApiResponse,
    ApiService,
    UploadForm,
    error_of_response,
    retry_after,
)
from choir_agent.tools.speech.providers import parse_error
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.backoff import Backoff
from choir_common.speech.ogg import read_opus_seconds
from choir_common.speech.transcription import (
    MAX_AUDIO_BYTES,
    TRANSCRIPTION_PATH,
    form_fields,
    parse_answer,
    too_long,
    upload_name,
)
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import TranscriptionBinding
from choir_common.wire.model import JsonObject
from choir_common.wire.speech import SpeechUsage, Transcription

SERVICE = "the transcription endpoint"
RETRIES = 3
"""Retries of an endpoint that answers. One that cannot be reached may be restarting: it has the deadline."""
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 5.0
PASSING = ("unreachable", "timeout", "service_error", "rate_limited")
"""Errors after which a later request may succeed."""
OK = 200
NO_WORDS = "no words were recognised in it. Please record it again, or write your message."


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a voice message, and what was recorded about it."""

    text: str
    transcription: Transcription
    usage: tuple[SpeechUsage, ...] = ()
    refusal: BudgetExceeded | None = None
    """The budget in money that did not allow it."""


class AudioTranscriber:
    """Client of transcription endpoints for files of the workspace."""

    def __init__(
        self, workspace: Workspace, web: ApiClient, money: MoneyReserver = UNLIMITED
    ) -> None:
        self._workspace = workspace
        self._web = web
        self._money = money

    async def transcribe(
        self, file: ReceivedFile, binding: TranscriptionBinding, key: str | None
    ) -> Transcript:
        """Return the transcript of a file; without words it says why.

        Raises ToolFailed, or BudgetExceeded before anything is sent.
        """
        config = binding.config
        content, seconds = await asyncio.to_thread(self._read, file.path)
        problem = too_long(config, binding.name, seconds)
        if problem is not None:
            raise ToolFailed("too_large", problem)
        form = UploadForm(form_fields(config), upload_name(file.name), content, file.mime)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        service = ApiService(SERVICE, config.endpoint, config.secret or "", key or "", headers)
        call = ApiRequest("POST", TRANSCRIPTION_PATH, form=form)
        planned = PlannedCall(
            kind="transcription",
            name=binding.name,
            timeout_s=config.timeout_ms / 1000,
            audio_seconds=config.max_seconds if seconds is None else seconds,
        )
        async with self._money.reserve(planned) as reservation:
            answer = await self._send(service, call, config.timeout_ms / 1000)
        return _transcript(answer.json(service), binding, seconds, reservation.id)

    def _read(self, path: str) -> tuple[bytes, float | None]:
        descriptor = self._workspace.open_file(path)
        with open(descriptor, "rb") as audio:  # noqa: PTH123 - a descriptor
            size = os.fstat(descriptor).st_size
            if size > MAX_AUDIO_BYTES:
                text = (
                    f"it has more than {MAX_AUDIO_BYTES // 1_000_000} MB. Please send it in parts."
                )
                raise ToolFailed("too_large", text)
            if size == 0:
                raise ToolFailed("empty", "the file is empty. Please record it again.")
            return audio.read(), read_opus_seconds(descriptor)

    async def _send(self, service: ApiService, call: ApiRequest, timeout_s: float) -> ApiResponse:
        """Return the successful response, after retries if necessary; raises ToolFailed."""
        clock = asyncio.get_running_loop().time
        deadline, backoff = clock() + timeout_s, Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
        failures = 0
        while True:
            pause_s = backoff.pause_s()
            try:
                answer = await self._web.call(service, call, deadline - clock())
                if answer.status == OK:
                    return answer
                pause_s = max(pause_s, retry_after(answer.headers) or 0.0)
                raise error_of_response(service, answer, parse_error(answer.body)[1])
            except ToolFailed as error:
                failures += error.kind != "unreachable"
                is_last = failures > RETRIES or clock() + pause_s >= deadline
                if is_last or error.kind not in PASSING:
                    raise
            await asyncio.sleep(pause_s)


def _transcript(
    answer: JsonObject, binding: TranscriptionBinding, seconds: float | None, reservation: str
) -> Transcript:
    words = parse_answer(answer, binding, seconds, reservation)
    if words is None:
        raise ToolFailed("bad_answer", f"{SERVICE} returned no `text`")
    transcription = Transcription(
        model=binding.config.model,
        seconds=words.seconds,
        language=words.language or binding.config.language or "",
        problem="" if words.text else NO_WORDS,
    )
    return Transcript(words.text, transcription, (words.usage,))
