"""Parsing of responses of Ollama's `/api/chat`: one JSON object per line, or a single one. Pure."""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.body_parser import build_call, parse_body
from choir_models.model import Completion, NoModelResponse, ProposedCall
from choir_models.ollama.codec import FIELDS_KEY
from choir_models.output_limits import MAX_CALLS, text_with_notes, token_count
from choir_models.provider_errors import error_from_body
from choir_models.provider_fields import call_fields

MAX_THINKING = 200_000


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _ChunkMessage(_Lenient):
    content: str = ""
    thinking: str | None = None
    tool_calls: list[JsonValue] | None = None


class _Chunk(_Lenient):
    model: str = ""
    message: _ChunkMessage = _ChunkMessage()
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: JsonValue = None
    eval_count: JsonValue = None
    error: JsonValue = None


class ResponseReader:
    """Builds a completion from the lines of a response."""

    def __init__(self, asked_model: str) -> None:
        self._model = asked_model
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[JsonValue] = []
        self._last: _Chunk | None = None
        self.hidden_characters = 0
        """The length of the output that is no text: thoughts, calls."""

    def add_line(self, line: bytes) -> str:
        """Add a line, and return the text in it.

        Raises ModelFailed if it is not a part of a chat response; an error in it is classified and raised.
        """
        if not line.strip():
            return ""
        chunk = parse_body(_Chunk, line, "the answer is not a chat response of Ollama")
        if chunk.error:
            raise error_from_body(chunk.error, datetime.now(UTC))
        self._text.append(chunk.message.content)
        self._thinking.append(chunk.message.thinking or "")
        self._calls += chunk.message.tool_calls or []
        self.hidden_characters += len(chunk.message.thinking or "")
        self.hidden_characters += sum(len(str(call)) for call in chunk.message.tool_calls or [])
        self._model = chunk.model or self._model
        if chunk.done:
            self._last = chunk
        return chunk.message.content

    def completion(self, duration_ms: float) -> Completion:
        """Return the completion. Raises NoModelResponse if the last line is missing."""
        if self._last is None:
            raise NoModelResponse(
                _("the response ended before it was complete"), cause="connection"
            )
        calls = tuple(map(_proposed, self._calls[:MAX_CALLS]))
        finish = "tool_calls" if calls else self._last.done_reason or "stop"
        return Completion(
            text=text_with_notes(
                "".join(self._text), calls=len(self._calls), is_cut=finish == "length"
            ),
            calls=calls,
            model=self._model,
            finish_reason=finish,
            prompt_tokens=token_count(self._last.prompt_eval_count),
            completion_tokens=token_count(self._last.eval_count),
            duration_ms=round(duration_ms, 3),
            fields=self._fields(),
        )

    def _fields(self) -> JsonObject:
        # Models read the thoughts of the current turn only, so those before a final answer are not needed.
        thinking = "".join(self._thinking)
        if not self._calls or not thinking or len(thinking) > MAX_THINKING:
            return {}
        return {FIELDS_KEY: {"thinking": thinking}}


def _proposed(call: JsonValue) -> ProposedCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return ProposedCall("", "{}")
    # `index` is the call's position in the response
    fields = {key: value for key, value in function.items() if key != "index"}
    return build_call(function, call_fields({**call, "function": fields}))
