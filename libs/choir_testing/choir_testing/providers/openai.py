"""Fakes of providers with the Chat Completions API: OpenAI, DeepSeek, OpenRouter and Gemini.

Each has the documented differences: own fields that must come back unchanged, counts, limits and errors.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from choir_common.wire.model import JsonObject
from choir_testing.providers.chat_completions import (
    BODY_FIELDS,
    ChatCompletionsProvider,
    Message,
    assistant_calls,
    current_turn,
    finish_reason,
    sse,
    usage_with_details,
)
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FaultKind,
    RecordedRequest,
)

OVERFLOW = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 "
    "tokens. Please reduce the length of the messages."
)


class OpenAi(ChatCompletionsProvider):
    """OpenAI: no fields of its own but citations; refuses every undocumented field."""

    name = "openai"
    own_message_fields = frozenset({"annotations"})
    _ERRORS: ClassVar[dict[FaultKind, tuple[int, str, str, str]]] = {
        "invalid": (400, "invalid_request_error", "invalid_value", "Invalid request."),
        "key": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
        "credit": (
            *(429, "insufficient_quota", "insufficient_quota"),
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        "not_found": (
            *(404, "invalid_request_error", "model_not_found"),
            "The model does not exist or you do not have access to it.",
        ),
        "rate": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
        "server": (500, "server_error", "", "The server had an error processing your request."),
        "overloaded": (503, "server_error", "", "The engine is currently overloaded."),
        "overflow": (400, "invalid_request_error", "context_length_exceeded", OVERFLOW),
        "filter": (
            *(400, "invalid_request_error", "content_policy_violation"),
            "Your request was rejected as a result of our safety system.",
        ),
    }

    def unknown_field(self, name: str) -> str:
        return f"Unrecognized request argument supplied: {name}"

    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        return None

    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        # Documented members of every message.
        message["refusal"] = None
        message["annotations"] = list(answer.annotations)

    def usage_of(self, answer: Answer) -> JsonObject:
        return usage_with_details(answer)

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        status, kind, code, usual = self._ERRORS[fault.kind]
        text = fault.message or usual
        named = re.search(r"'([a-z_]+)'", text)
        error: JsonObject = {
            "message": text,
            "type": kind,
            "param": named[1] if named and fault.kind == "invalid" else None,
            "code": code or None,
        }
        return ErrorResponse(status, {"error": error}, _retry_after(fault))


class DeepSeek(ChatCompletionsProvider):
    """DeepSeek in thinking mode: each message with calls carries the reasoning that it was sent with."""

    name = "deepseek"
    base_path = ""
    limit_error = "Invalid max_tokens value, the valid range of max_tokens is [1, {longest}]"
    sees_images = False
    own_message_fields = frozenset({"reasoning_content"})
    _ERRORS: ClassVar[dict[FaultKind, tuple[int, str]]] = {
        "invalid": (400, "Invalid request."),
        "key": (401, "Authentication Fails (no such user)"),
        "credit": (402, "Insufficient Balance"),
        "not_found": (400, "Model Not Exist"),
        "rate": (429, "Rate limit reached."),
        "server": (500, "Internal server error."),
        "overloaded": (503, "Service is too busy. Please try again later."),
        "overflow": (400, OVERFLOW),
        "filter": (400, "Content Exists Risk: content_filter"),
    }

    def unknown_field(self, name: str) -> str:
        return f"Failed to deserialize the JSON body into the target type: unknown field `{name}`"

    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        known = {message["reasoning_content"] for message in self.sent}
        if all(m.get("reasoning_content") in known for m in assistant_calls(messages)):
            return None
        return "The `reasoning_content` in the thinking mode must be passed back to the API."

    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        # Present also when the model did not think.
        message["reasoning_content"] = answer.reasoning

    def usage_of(self, answer: Answer) -> JsonObject:
        usage = answer.usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "prompt_cache_hit_tokens": usage.cached_tokens,
            "prompt_cache_miss_tokens": usage.prompt_tokens - usage.cached_tokens,
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        status, usual = self._ERRORS[fault.kind]
        kind = "authentication_error" if fault.kind == "key" else "invalid_request_error"
        error: JsonObject = {"message": fault.message or usual, "type": kind, "code": kind}
        return ErrorResponse(status, {"error": error}, _retry_after(fault))


class OpenRouter(ChatCompletionsProvider):
    """OpenRouter: reasoning details unmodified and in order; upstream errors with status 200."""

    name = "openrouter"
    base_path = "/api/v1"
    own_message_fields = frozenset({"reasoning", "reasoning_details", "annotations"})
    _ERRORS: ClassVar[dict[FaultKind, tuple[int, str]]] = {
        "invalid": (400, "Invalid request."),
        "key": (401, "No auth credentials found"),
        "credit": (402, "Insufficient credits. Add more credits."),
        "not_found": (404, "No endpoints found for this model."),
        "rate": (429, "Provider returned error"),
        "server": (500, "Internal Server Error"),
        "overloaded": (502, "Provider returned error"),
        "overflow": (400, "This endpoint's maximum context length is 128000 tokens."),
        "filter": (403, "Your chosen model requires moderation and your input was flagged"),
    }
    _UPSTREAM: ClassVar[tuple[FaultKind, ...]] = ("server", "overloaded", "overflow")
    """Errors of the provider behind it, which come with status 200."""

    def broken_body(self, body: Message) -> str | None:
        own = {"provider", "models", "transforms", "reasoning", "usage"}
        return super().broken_body({k: v for k, v in body.items() if k not in own})

    def unknown_field(self, name: str) -> str:
        return f"Input validation error: unrecognized key '{name}'"

    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        known = [message.get("reasoning_details") for message in self.sent]
        for message in assistant_calls(messages):
            details = message.get("reasoning_details")
            if details not in known:
                return "reasoning_details are required for this model and must be sent unmodified"
            ids = {call["id"] for call in message["tool_calls"]}
            if any(detail.get("id", "") not in {*ids, ""} for detail in details or ()):
                return "reasoning_details name a tool call that is missing"
        return None

    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        if answer.annotations:
            message["annotations"] = list(answer.annotations)
        if not answer.reasoning:
            return
        text = {"type": "reasoning.text", "text": answer.reasoning, "format": "anthropic-claude-v1"}
        message["reasoning"] = answer.reasoning
        message["reasoning_details"] = [
            {**text, "signature": f"signature {number}", "index": 0},
            *(
                {"type": "reasoning.encrypted", "data": "ZGF0YQ==", "id": call["id"], "index": n}
                for n, call in enumerate(message.get("tool_calls", ()), start=1)
            ),
        ]

    def usage_of(self, answer: Answer) -> JsonObject:
        return {**usage_with_details(answer), "cost": answer.usage.billed_usd or 0.001}

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        body = super().render(answer, request)
        return {**body, "provider": "Upstream", "native_finish_reason": finish_reason(answer)}

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        # Comments keep the connection open; a reader must skip them.
        return [b": OPENROUTER PROCESSING\n\n", *super().render_stream(answer, request)]

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        status, usual = self._ERRORS[fault.kind]
        metadata: JsonObject = {"provider_name": "Upstream", "raw": usual}
        if fault.kind == "filter":
            metadata = {"reasons": ["violence"], "flagged_input": "...", "provider_name": "Up"}
        error: JsonObject = {"code": status, "message": fault.message or usual}
        if fault.kind not in ("key", "credit", "not_found", "invalid"):
            error["metadata"] = metadata
        shown = 200 if fault.kind in self._UPSTREAM else status
        return ErrorResponse(shown, {"error": error}, _retry_after(fault))


class GeminiChat(ChatCompletionsProvider):
    """Gemini's compatible endpoint: the first call of each step of a turn carries its signature."""

    name = "gemini-openai"
    base_path = "/v1beta/openai"
    own_message_fields = frozenset({"extra_content"})
    own_call_fields = frozenset({"extra_content"})
    _ERRORS: ClassVar[dict[FaultKind, tuple[int, str, str]]] = {
        "invalid": (400, "INVALID_ARGUMENT", "Invalid request."),
        "key": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        "credit": (
            *(429, "RESOURCE_EXHAUSTED"),
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        "not_found": (404, "NOT_FOUND", "models/x is not found for API version v1main."),
        "rate": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        "server": (500, "INTERNAL", "An internal error has occurred. Please retry."),
        "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "overflow": (
            *(400, "INVALID_ARGUMENT"),
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "filter": (400, "INVALID_ARGUMENT", "The prompt was blocked: content_filter"),
    }

    def broken_body(self, body: Message) -> str | None:
        own = {"extra_body"}
        unknown = sorted(body.keys() - BODY_FIELDS - own)
        if unknown:
            return self.unknown_field(unknown[0])
        return super().broken_body({k: v for k, v in body.items() if k not in own})

    def unknown_field(self, name: str) -> str:
        return f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'

    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        known = [_signature(message) for message in assistant_calls(self.sent)]
        for message in assistant_calls(current_turn(messages)):
            if _signature(message) is None or _signature(message) not in known:
                return "Function call is missing a thought_signature in functionCall parts."
        return None

    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        for call in message.get("tool_calls", ())[:1]:
            call["extra_content"] = {"google": {"thought_signature": f"signature {number}"}}

    def usage_of(self, answer: Answer) -> JsonObject:
        return usage_with_details(answer)

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        status, code, usual = self._ERRORS[fault.kind]
        error: JsonObject = {"code": status, "message": fault.message or usual, "status": code}
        if fault.retry_after_s is not None:
            # Sent in the body, not in a header.
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{fault.retry_after_s:g}s"}]
        return ErrorResponse(status, [{"error": error}])


def _signature(message: Message) -> str | None:
    google = message["tool_calls"][0].get("extra_content", {}).get("google", {})
    signature: str | None = google.get("thought_signature")
    return signature


def _retry_after(fault: ErrorFault) -> dict[str, str]:
    return {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}


def stream_error(message: str, code: int = 502) -> bytes:
    """Return OpenRouter's event for an error in the middle of a stream."""
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    return sse({"error": {"code": code, "message": message}, "choices": [choice]})
