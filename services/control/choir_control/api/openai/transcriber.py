"""Transcription of clients' audio files with the models of `transcription` in config.json.

One attempt for each request: OpenAI's packages repeat requests themselves.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from http import HTTPStatus

import httpx2
import structlog

from choir_common.clock import Clock
from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
)
from choir_common.http.client import make_client
from choir_common.ids import new_id
from choir_common.speech.ogg import HEAD_BYTES, TAIL_BYTES, opus_seconds
from choir_common.speech.transcription import (
    TRANSCRIPTION_PATH,
    SpokenWords,
    form_fields,
    parse_answer,
    too_long,
    upload_name,
)
from choir_common.wire.config import TranscriptionBinding
from choir_common.wire.model import JsonObject
from choir_common.wire.money import ReserveMoney
from choir_control.api.openai.timestamps import TimedText, read_parts
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.money.costs import CostService
from choir_control.money.direct_calls import DirectCallBudgets
from choir_control.money.usage import MAX_SECONDS, ProviderUsage

log = structlog.get_logger("choir.transcription")

MAX_RUNNING = 4
"""Files that are transcribed at once; each is in memory."""
MAX_ANSWER_BYTES = 8_000_000
HOLD_MARGIN_S = 60.0
RETRY_AFTER_S = 2.0
ENDPOINT = "The transcription endpoint"
_REJECTED = frozenset({400, 413, 415, 422})


class _NotBilled(Exception):
    """The endpoint did no work; `error` says why."""

    def __init__(self, error: ChoirError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class AudioFile:
    """A file of a client."""

    name: str
    mime: str
    content: bytes = field(repr=False)
    language: str | None = None
    """The language that the client names (ISO 639); None: that of the configuration."""
    granularities: tuple[str, ...] = ()
    """The parts whose times are wanted: `segment`, `word`; empty: no times."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """The words of a file, with the times that were asked for."""

    spoken: SpokenWords
    segments: tuple[TimedText, ...]
    words: tuple[TimedText, ...]


class TranscriptionService:
    """Service of transcriptions."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        secrets: SecretStore,
        budgets: DirectCallBudgets,
        costs: CostService,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self._secrets = secrets
        self._budgets = budgets
        self._costs = costs
        self._clock = clock
        self._running = 0

    def names(self) -> list[str]:
        """Return the names of the models in config.json."""
        return sorted(self._configuration.current.config.transcription)

    def find(self, model: str) -> TranscriptionBinding:
        """Return a model by its name in config.json, or by the provider's; raises NotFound."""
        models = self._configuration.current.config.transcription
        for name, config in sorted(models.items()):
            if model in (name, config.model):
                return TranscriptionBinding(name=name, config=config)
        names = ", ".join(sorted(models)) or "none"
        raise NotFound(f"model: there is no transcription model {model[:64]!r} here ({names}).")

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Count a file in memory; raises RateLimited for too many."""
        if self._running >= MAX_RUNNING:
            raise RateLimited(
                f"{MAX_RUNNING} files are being transcribed, the maximum.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def transcribe(self, binding: TranscriptionBinding, file: AudioFile) -> TimedAnswer:
        """Return the words of a file, after its cost is in the ledger.

        Raises TooLarge for one that is too long, InvalidRequest for one that the endpoint rejects,
        BudgetExceeded, and RateLimited, Unavailable or DeadlineExceeded if a repetition may help.
        """
        config, content = binding.config, file.content
        seconds = opus_seconds(content[:HEAD_BYTES], content[-TAIL_BYTES:])
        problem = too_long(config, binding.name, seconds)
        if problem is not None:
            raise TooLarge(f"file: {problem}")
        timeout_s = config.timeout_ms / 1000
        call = ReserveMoney(
            kind="transcription",
            name=binding.name,
            audio_seconds=config.max_seconds if seconds is None else seconds,
            hold_s=timeout_s + HOLD_MARGIN_S,
        )
        reservation = await self._budgets.reserve(call)
        try:
            answer = await self._send(binding, file)
        except _NotBilled as failure:
            await self._budgets.release(reservation)
            raise failure.error from failure
        words = parse_answer(answer, binding, seconds, reservation)
        if words is None:
            raise Unavailable(f"{ENDPOINT} returned no `text`.")
        await self._costs.record_usage(None, [self._usage(words)])
        log.info("file transcribed", model=config.model, seconds=words.seconds)
        return _with_times(words, answer, binding, file)

    async def _send(self, binding: TranscriptionBinding, file: AudioFile) -> JsonObject:
        """Return the answer. Without one it may be billed, so the reservation stays until it expires."""
        config = binding.config
        key = self._secrets.get(config.secret) if config.secret else None
        headers = {"Accept-Encoding": "identity"}
        if config.secret:
            if not key:
                raise _NotBilled(Unavailable(f"The secret `{config.secret}` has no value."))
            headers["Authorization"] = f"Bearer {key}"
        timeout_s = config.timeout_ms / 1000
        upload = (upload_name(file.name), file.content, file.mime)
        fields: dict[str, str | list[str]] = {
            **form_fields(config, file.language, "verbose_json" if file.granularities else "json")
        }
        if file.granularities:
            fields["timestamp_granularities[]"] = list(file.granularities)
        try:
            # in a thread: it reads the certificates
            client = await asyncio.to_thread(
                make_client, config.endpoint.rstrip("/"), headers=headers, timeout_s=timeout_s
            )
            async with (
                asyncio.timeout(timeout_s),
                client,
                client.stream(
                    "POST",
                    config.endpoint.rstrip("/") + TRANSCRIPTION_PATH,
                    data=fields,
                    files={"file": upload},
                ) as response,
            ):
                if response.status_code != HTTPStatus.OK:
                    raise _NotBilled(_refusal(binding, response, file))
                return await _read_json(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            text = f"{ENDPOINT} {config.endpoint} cannot be reached."
            raise _NotBilled(Unavailable(text, retry_after_s=RETRY_AFTER_S)) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise DeadlineExceeded(f"{ENDPOINT} did not answer within {timeout_s:g} s.") from error
        except httpx2.TransportError as error:
            raise Unavailable(f"{ENDPOINT} closed the connection.") from error

    def _usage(self, words: SpokenWords) -> ProviderUsage:
        usage, seconds = words.usage, words.usage.audio_seconds
        return ProviderUsage(
            entry_id=new_id("use"),
            kind="transcription",
            at=self._clock.now(),
            name=usage.name,
            model=usage.model,
            prompt_tokens=usage.input_tokens or 0,
            completion_tokens=usage.output_tokens or 0,
            audio_input_tokens=usage.audio_input_tokens or 0,
            audio_seconds=None if seconds is None else Decimal(repr(min(seconds, MAX_SECONDS))),
            reservation=usage.reservation,
        )


async def _read_json(response: httpx2.Response) -> JsonObject:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise Unavailable(f"The answer of {ENDPOINT.lower()} is too large.")
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unavailable(f"{ENDPOINT} returned no JSON object.")
    return answer


def _with_times(
    words: SpokenWords, answer: JsonObject, binding: TranscriptionBinding, file: AudioFile
) -> TimedAnswer:
    """Return the words with their times; raises InvalidRequest if the endpoint gave none."""
    segments = read_parts(answer, "segments", "text")
    single = read_parts(answer, "words", "word")
    times = {"segment": segments, "word": single}
    if words.text and not all(times[kind] for kind in file.granularities):
        raise InvalidRequest(f"response_format: {_no_times(binding)}")
    return TimedAnswer(words, segments, single)


def _no_times(binding: TranscriptionBinding) -> str:
    return (
        f"the model {binding.name} gives no timestamps; `json` and `text` work. `verbose_json`, `srt` and "
        "`vtt` need a model such as whisper-1."
    )


def _refusal(
    binding: TranscriptionBinding, response: httpx2.Response, file: AudioFile
) -> ChoirError:
    """Return the error of an unsuccessful response. Its text is not quoted: it may contain the key."""
    status, config = response.status_code, binding.config
    if status in _REJECTED and file.granularities:
        return InvalidRequest(
            f"response_format: {ENDPOINT.lower()} rejects this request (HTTP {status}): the file cannot be "
            f"read, or {_no_times(binding)}"
        )
    if status in _REJECTED:
        return InvalidRequest(f"file: {ENDPOINT.lower()} rejects this file (HTTP {status}).")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = f"the secret `{config.secret}`" if config.secret else "an access without a key"
        return Unavailable(f"{ENDPOINT} refuses {what} (HTTP {status}).")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"The rate limit of {ENDPOINT.lower()} is exceeded."
        return RateLimited(text, retry_after_s=RETRY_AFTER_S)
    text = f"{ENDPOINT} failed (HTTP {status})."
    return Unavailable(text, retry_after_s=RETRY_AFTER_S)
