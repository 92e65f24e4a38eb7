"""Parsing of Gemini responses, whole or streamed. Pure.

A whole response is one chunk. The model's parts are stored as they came if they have more than text and
plain calls: thought signatures must come back in the part that they came in, and a signed part must not be
merged with another.
"""

import orjson
from pydantic import JsonValue

from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.model import (
    Completion,
    ModelFailed,
    ModelRequestRejected,
    NoModelResponse,
    ProposedCall,
)
from choir_models.output_limits import MAX_ARGUMENTS, MAX_CALLS, text_with_notes, token_count
from choir_models.provider_fields import native_fields

CUT_REASONS = frozenset({"MAX_TOKENS", "CONTINUATION"})
BAD_CALL_REASONS = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"}
)
FINISHED = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED", "OTHER"})
BAD_CALL = "malformed_function_call"
"""Name of a call that the provider could not parse; the arbiter refuses it, and the model sees why."""
MAX_CONTINUATIONS = 8
_MERGED_KEYS = ({"text"}, {"text", "thought"})


class GeminiResponse:
    """The chunks of one response, in order."""

    def __init__(self) -> None:
        self._parts: list[JsonObject] = []
        self._usage: JsonObject = {}
        self._has_candidate = False
        self._finish = ""
        self._finish_message = ""
        self._block = ""
        self._model = ""
        self._token = ""
        self._earlier_usage: list[JsonObject] = []
        self.hidden_characters = 0
        """The length of the output that is no text for the user: thoughts, calls."""

    def add(self, chunk: bytes | str) -> str:
        """Add a chunk and return its text for the user; raises ModelFailed if it is not Gemini's."""
        body = _parse(chunk)
        self._model = _text(body, "modelVersion") or self._model
        self._usage = _object(body, "usageMetadata") or self._usage
        self._block = _text(_object(body, "promptFeedback"), "blockReason") or self._block
        candidates = body.get("candidates")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        if not isinstance(candidate, dict):
            return ""
        self._has_candidate = True
        self._finish = _text(candidate, "finishReason") or self._finish
        self._token = _text(candidate, "continuationToken") or self._token
        self._finish_message = _text(candidate, "finishMessage") or self._finish_message
        parts = _object(candidate, "content").get("parts")
        added = (
            [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        for part in added:
            self._append(part)
            self.hidden_characters += _hidden_length(part)
        return "".join(map(_visible_text, added))

    def take_continuation(self) -> str:
        """Return the token for the request that continues this response, or an empty text."""
        if self._finish != "CONTINUATION" or len(self._earlier_usage) == MAX_CONTINUATIONS:
            return ""
        token, self._token = self._token, ""
        if token:
            self._earlier_usage.append(self._usage)
            self._finish, self._usage = "", {}
        return token

    @property
    def written_tokens(self) -> int:
        """The tokens of the output so far, with its thoughts."""
        return self._tokens("candidatesTokenCount") + self._tokens("thoughtsTokenCount")

    def completion(self, asked_model: str, duration_ms: float) -> Completion:
        """Return the whole output; raises ModelFailed if it was blocked or is missing."""
        calls = [_object(part, "functionCall") for part in self._parts if "functionCall" in part]
        proposed = [_proposed(call) for call in calls[:MAX_CALLS]]
        fields = native_fields("gemini", self._parts) if any(map(_is_special, self._parts)) else {}
        if self._finish in BAD_CALL_REASONS and not calls:
            proposed = [ProposedCall(BAD_CALL, self._finish_message[:MAX_ARGUMENTS] or "{}")]
            fields = {}
        is_cut = self._finish in CUT_REASONS
        text = "".join(map(_visible_text, self._parts))
        thoughts = self._tokens("thoughtsTokenCount")
        completion = Completion(
            text=text_with_notes(text, calls=max(len(calls), len(proposed)), is_cut=is_cut),
            calls=tuple(proposed),
            model=self._model or asked_model,
            finish_reason="length" if is_cut else "tool_calls" if proposed else "stop",
            prompt_tokens=self._tokens("promptTokenCount")
            + self._tokens("toolUsePromptTokenCount"),
            completion_tokens=self.written_tokens,
            duration_ms=round(duration_ms, 3),
            cached_tokens=self._tokens("cachedContentTokenCount"),
            reasoning_tokens=thoughts,
            audio_input_tokens=self._fresh_tokens("AUDIO"),
            audio_output_tokens=self._tokens_of("candidatesTokensDetails", "AUDIO"),
            image_tokens=self._fresh_tokens("IMAGE"),
            fields=fields,
        )
        self._check(completion)
        return completion

    def _tokens(self, name: str) -> int:
        """Return a count of the usage; each request of a continued response is charged."""
        return sum(token_count(usage.get(name)) for usage in (*self._earlier_usage, self._usage))

    def _fresh_tokens(self, modality: str) -> int:
        """Return a modality's tokens of the prompt that did not come from the cache."""
        names = ("promptTokensDetails", "toolUsePromptTokensDetails")
        sent = sum(self._tokens_of(name, modality) for name in names)
        return max(0, sent - self._tokens_of("cacheTokensDetails", modality))

    def _tokens_of(self, name: str, modality: str) -> int:
        """Return a modality's count in a list of the usage."""
        lists = (usage.get(name) for usage in (*self._earlier_usage, self._usage))
        counts = (count for counted in lists if isinstance(counted, list) for count in counted)
        return sum(
            token_count(count.get("tokenCount"))
            for count in counts
            if isinstance(count, dict) and count.get("modality") == modality
        )

    def _append(self, part: JsonObject) -> None:
        """Append a part; the pieces of one text in a stream become one part."""
        last = self._parts[-1] if self._parts else None
        is_same_kind = last is not None and _kind(part) == _kind(last)
        if last is not None and is_same_kind and part.keys() in _MERGED_KEYS:
            self._parts[-1] = {**last, "text": _text(last, "text") + _text(part, "text")}
        else:
            self._parts.append(part)

    def _check(self, spent: Completion) -> None:
        """Raise the failure of a response that is no answer; the provider bills what it has counted."""
        if not self._has_candidate:
            if self._block:
                message = _("the provider's content filter blocked the prompt ({block})").format(
                    block=self._block
                )
                # Without a count nothing was read.
                billed = spent if spent.prompt_tokens else None
                raise ModelFailed(message, cause="filter", spent=billed)
            message = _("the provider's response contains no candidate")
            raise ModelFailed(message, cause="format", spent=spent)
        if not self._finish:
            message = _("the provider's response ended early")
            raise NoModelResponse(message, cause="connection", spent=spent)
        if self._finish == "OTHER" and not self._parts:
            raise ModelFailed(_("the provider ended its answer without a reason"), spent=spent)
        if self._finish == "MISSING_THOUGHT_SIGNATURE":
            text = _("the provider reports a missing thought signature in the history")
            raise ModelRequestRejected(text, cause="request", spent=spent)
        if self._finish not in FINISHED | CUT_REASONS | BAD_CALL_REASONS:
            # SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII, LANGUAGE and those to come
            message = _("the provider's content filter blocked the answer ({finish})").format(
                finish=self._finish
            )
            raise ModelFailed(message, cause="filter", spent=spent)


def _parse(chunk: bytes | str) -> JsonObject:
    try:
        body = orjson.loads(chunk)
    except orjson.JSONDecodeError as error:
        raise ModelFailed(_("the provider's answer is not JSON"), cause="format") from error
    if not isinstance(body, dict):
        raise ModelFailed(_("the provider's answer is not a Gemini response"), cause="format")
    return body


def _proposed(call: JsonObject) -> ProposedCall:
    arguments = orjson.dumps(call.get("args") or {}).decode()
    return ProposedCall(_text(call, "name")[:200], arguments[:MAX_ARGUMENTS])


def _kind(part: JsonObject) -> tuple[frozenset[str], JsonValue]:
    return frozenset(part), part.get("thought")


def _visible_text(part: JsonObject) -> str:
    return "" if part.get("thought") else _text(part, "text")


def _hidden_length(part: JsonObject) -> int:
    call = part.get("functionCall")
    thought = len(_text(part, "text")) if part.get("thought") else 0
    return thought + (len(orjson.dumps(call)) if call else 0)


def _is_special(part: JsonObject) -> bool:
    """Return whether a part says more than its text, or than the name and arguments of a call."""
    if part.keys() == {"text"}:
        return False
    call = _object(part, "functionCall")
    return part.keys() != {"functionCall"} or not call.keys() <= {"name", "args"}


def _text(value: JsonObject, name: str) -> str:
    text: JsonValue = value.get(name)
    return text if isinstance(text, str) else ""


def _object(value: JsonObject, name: str) -> JsonObject:
    inner: JsonValue = value.get(name)
    return inner if isinstance(inner, dict) else {}
