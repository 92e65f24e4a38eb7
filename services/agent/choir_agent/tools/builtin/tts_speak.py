"""`choir.tts.speak`: convert a text to speech with the agent's voice and save the audio file.

Runs under lock `choirtmp` X, after the commitment is durable. Uses the voice profile in the call's settings.
The audio is streamed into `.choirtmp/send/`, from where it can be sent.
"""

import re

from choir_agent.tools.api_client import MAX_RETRY_WAIT_S
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.speech.providers import SpeechRequest
from choir_agent.tools.speech.synthesis import TIMEOUT_S, SpeechSynthesizer
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import SEND_DIR
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

MAX_CHARS = 5_000
FILE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"

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
    """Speech synthesis with the agent's voice."""

    manifest = MANIFEST

    def __init__(self, synthesizer: SpeechSynthesizer) -> None:
        self._synthesizer = synthesizer

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Save the audio; raises ToolFailed if no voice is configured, or with the service's error.

        Raises BudgetExceeded if a budget in money does not allow it.
        """
        voice = None if context.settings is None else context.settings.voice
        if voice is None:
            raise ToolFailed(
                "not_configured",
                "This agent has no voice: the user adds one under `tts` and `voice_profiles` in "
                "config.json and names it in the agent's defaults.",
            )
        text, output_format = str(arguments["text"]), voice.profile.output_format
        speech = SpeechRequest(voice, context.secrets.get("voice_profile"), text, output_format)
        path = f"{SEND_DIR}/{_name(context, arguments)}"
        saved = await self._synthesizer.save(
            speech, path, money=context.money, job_id=context.job_id
        )
        output: JsonObject = {
            "path": saved.path,
            "bytes": saved.size,
            "format": output_format,
            "characters": len(text),
        }
        summary = f"{saved.size} bytes of speech saved in {saved.path}"
        return ToolOutput(output, summary, usage=(saved.usage,))


def _name(context: CallContext, arguments: JsonObject) -> str:
    name = str(arguments.get("name", f"speech-{context.call_id[-12:]}"))
    # Checked again although the schema has the pattern: the name becomes part of a path.
    if not re.fullmatch(FILE_NAME_PATTERN, name):
        raise ToolFailed("bad_input", "A name must have 1 to 64 letters, digits, - and _.")
    return name
