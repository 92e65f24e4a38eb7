"""Speech for an answer to a voice message, as a file of the reply.

The text of the answer is always sent: a failure of the speech service costs the sound only.
"""

import mimetypes
from dataclasses import dataclass

import structlog

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.budgets.money import MoneyReserver
from choir_agent.settings import SettingsSource
from choir_agent.tools.speech.providers import VOICE_NOTE_FORMATS, SpeechRequest
from choir_agent.tools.speech.spoken_text import render_spoken_text
from choir_agent.tools.speech.synthesis import SpeechFile, SpeechSynthesizer
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import SEND_DIR
from choir_common.wire.attachments import ANY_MIME, AttachmentKind, SentFile
from choir_common.wire.config import VoiceBinding
from choir_common.wire.speech import SpeechUsage

log = structlog.get_logger("choir.agent.voice")

MAX_CHARS = 4_000
"""Longest answer that is spoken, about five minutes; OpenAI accepts 4,096 characters."""
MIB = 1024 * 1024
TIMEOUT_S = 60.0
"""The user waits for the text meanwhile."""
VOICE_MIME = "audio/ogg"
WRONG_FORMAT = ("bad_input", "refused")
"""Errors of a provider that does not know the requested format."""


@dataclass(frozen=True, slots=True)
class SpokenAnswer:
    """The speech of an answer."""

    files: tuple[SentFile, ...] = ()
    """At most one; none if the answer is not spoken."""
    usage: tuple[SpeechUsage, ...] = ()
    problem: str = ""
    """Why it is not spoken, if the user does not know that yet."""
    refusal: BudgetExceeded | None = None
    """The budget in money that does not allow to speak it."""


SILENT = SpokenAnswer()


class VoiceAnswers:
    """Speaker of answers with the agent's voice profile."""

    def __init__(
        self, synthesizer: SpeechSynthesizer, money: MoneyReserver, settings: SettingsSource
    ) -> None:
        self._synthesizer = synthesizer
        self._money = money
        self._settings = settings
        self._known_problems: dict[str, str] = {}
        """The problem that a conversation knows, by its lane."""

    async def speak(self, lane: str, turn_id: str, answer: str) -> SpokenAnswer:
        """Return the spoken answer; no file if the agent has no voice or the answer is too long."""
        current = self._settings.current()
        voice, max_mb = current.settings.voice, current.settings.limits.sent_mb
        if voice is None or not current.settings.voice_replies:
            return SILENT
        text = render_spoken_text(answer)
        if not 0 < len(text) <= MAX_CHARS:
            return SILENT
        try:
            saved = await self._save(turn_id, text, voice, current.secret(voice.tts.secret))
        except BudgetExceeded as error:
            return SpokenAnswer(problem=self._report(lane, error.message), refusal=error)
        except ToolFailed as error:
            return SpokenAnswer(problem=self._report(lane, error.message))
        if saved.size > max_mb * MIB:
            problem = f"The audio is larger than the limit of {max_mb} MB (`limits.sent_mb`)."
            return SpokenAnswer(usage=(saved.usage,), problem=self._report(lane, problem))
        self._known_problems.pop(lane, None)
        # a channel plays only Ogg Opus as a voice message
        kind: AttachmentKind = "voice" if saved.is_voice_note else "audio"
        mime = VOICE_MIME if saved.is_voice_note else mimetypes.guess_type(saved.path)[0]
        name = saved.path.rpartition("/")[2]
        file = SentFile(path=saved.path, name=name, kind=kind, mime=mime or ANY_MIME)
        return SpokenAnswer((file,), (saved.usage,))

    def _report(self, lane: str, problem: str) -> str:
        """Log a problem; return it unless the lane's user knows it already."""
        log.warning("answer not spoken", error=problem)
        is_known = problem == self._known_problems.get(lane, "")
        self._known_problems[lane] = problem
        return "" if is_known else problem

    async def _save(
        self, turn_id: str, text: str, voice: VoiceBinding, key: str | None
    ) -> SpeechFile:
        """Save the speech in the format of voice messages, or else in that of the voice profile."""
        # one name per turn: a turn that a crash interrupted replaces its file
        path, own = f"{SEND_DIR}/answer-{turn_id[-12:]}", voice.profile.output_format
        note_format = own if own.startswith("opus") else VOICE_NOTE_FORMATS[voice.tts.provider]
        try:
            return await self._synthesizer.save(
                SpeechRequest(voice, key, text, note_format),
                path,
                timeout_s=TIMEOUT_S,
                money=self._money,
            )
        except ToolFailed as error:
            if error.kind not in WRONG_FORMAT or note_format == own:
                raise
        speech = SpeechRequest(voice, key, text, own)
        return await self._synthesizer.save(speech, path, timeout_s=TIMEOUT_S, money=self._money)
