"""Transcription of a user's voice messages, before their turn begins.

The transcript becomes text of the message, so that prompts, reminders and memory contain what was said.
Nothing is committed before: a message that a crash interrupts is delivered and transcribed again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.settings import CurrentSettings, SettingsSource
from choir_agent.tools.speech.transcription import (
    PASSING,
    SERVICE,
    AudioTranscriber,
    Transcript,
)
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import TranscriptionBinding
from choir_common.wire.signals import UserMessageSignal
from choir_common.wire.speech import SpeechUsage, Transcription

log = structlog.get_logger("choir.agent.voice")

NOT_CONFIGURED = (
    "no transcription model is configured; the user can add one as `transcription` in config.json."
)
CANCELLED = "you cancelled it."


@dataclass(frozen=True, slots=True)
class HeardMessage:
    """A message with the words of its voice messages."""

    message: UserMessageSignal
    usage: tuple[SpeechUsage, ...] = ()
    """The usage of their transcription."""
    refusal: BudgetExceeded | None = None
    """The budget in money that did not allow a transcription."""


class VoiceNotes:
    """Transcriber of the voice messages among the files of a message."""

    def __init__(self, transcriber: AudioTranscriber, settings: SettingsSource) -> None:
        self._transcriber = transcriber
        self._settings = settings

    async def transcribe(self, message: UserMessageSignal) -> HeardMessage:
        """Return the message with the words of its voice messages as text.

        A file that cannot be transcribed says why.
        """
        current = self._settings.current()
        transcripts = await asyncio.gather(
            *(self._try(file, current) for file in message.attachments if _is_voice(file))
        )
        usage = tuple(item for transcript in transcripts for item in transcript.usage)
        refusals = (item.refusal for item in transcripts if item.refusal is not None)
        return HeardMessage(_with_transcripts(message, transcripts), usage, next(refusals, None))

    def cancelled(self, message: UserMessageSignal) -> UserMessageSignal:
        """Return the message without transcripts, because the user cancelled."""
        binding = self._settings.current().settings.transcription
        model = binding.config.model if binding else ""
        transcript = Transcript("", Transcription(model=model, problem=CANCELLED))
        voices = sum(map(_is_voice, message.attachments))
        return _with_transcripts(message, [transcript] * voices)

    async def _try(self, file: ReceivedFile, current: CurrentSettings) -> Transcript:
        binding = current.settings.transcription
        if binding is None:
            return Transcript("", Transcription(problem=NOT_CONFIGURED))
        model, secret = binding.config.model, binding.config.secret
        key = current.secret(secret)
        try:
            if secret is not None and not key:
                raise ToolFailed("no_secret", f"the secret `{secret}` has no value")
            transcript = await self._transcriber.transcribe(file, binding, key)
        except BudgetExceeded as error:
            problem = f"{error.message} Then send the message again."
            return Transcript("", Transcription(model=model, problem=problem), refusal=error)
        except ToolFailed as error:
            log.warning("voice message not transcribed", model=model, error=error.message)
            return Transcript("", Transcription(model=model, problem=_explain(error, binding)))
        log.info("voice message transcribed", model=model, seconds=transcript.transcription.seconds)
        return transcript


def has_voice(message: UserMessageSignal) -> bool:
    """Return whether a message has a voice message to transcribe."""
    return any(map(_is_voice, message.attachments))


def _is_voice(file: ReceivedFile) -> bool:
    return file.kind == "voice" and bool(file.path)


def _with_transcripts(
    message: UserMessageSignal, transcripts: Sequence[Transcript]
) -> UserMessageSignal:
    rest = iter(transcripts)
    files = tuple(
        file.model_copy(update={"transcription": next(rest).transcription})
        if _is_voice(file)
        else file
        for file in message.attachments
    )
    spoken = [transcript.text for transcript in transcripts]
    text = "\n\n".join(part for part in (message.text, *spoken) if part)
    return message.model_copy(update={"attachments": files, "text": text})


def _explain(error: ToolFailed, binding: TranscriptionBinding) -> str:
    """Return why there is no transcript and what the user can do."""
    what, secret = error.message.rstrip(". "), binding.config.secret
    store = f"Store a valid key with `choirctl secret set {secret}`, then `choirctl secret apply`."
    match error.kind:
        case "unauthorized" if secret is not None:
            return f"{SERVICE} {binding.config.endpoint} refused its key. {store}"
        case "no_secret":
            return f"{what}. {store}"
        case "too_large" | "empty" | "rate_limited":
            return f"{what}."
        case "timeout":
            setting = f"transcription.{binding.name}.timeout_ms"
            return f"{what}. Please send it again or in parts; `{setting}` allows more time."
        case "refused":
            check = f"If that fails, too, check `transcription.{binding.name}` in config.json."
            return f"{what}. Please record it again. {check}"
        case kind if kind in PASSING:
            return f"{what}. Please send it again in a few minutes."
        case _:
            return f"{what}. Check `transcription.{binding.name}` in config.json."
