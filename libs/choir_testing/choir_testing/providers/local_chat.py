"""Fakes of the Chat Completions API of vLLM, llama.cpp's server and LM Studio.

They differ in their errors, counts and fields of thoughts. What they cannot do themselves, such as limiting
the rate, a proxy in front of them does.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from choir_common.wire.model import JsonObject
from choir_testing.providers.chat_completions import ChatCompletionsProvider, Message
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FaultKind,
    RecordedRequest,
)

NO_SYSTEM = "System message must be at the beginning."
"""Error of the chat templates of many open models."""


class LocalChatServer(ChatCompletionsProvider):
    """A server of an open model, whose chat template may refuse a history."""

    filters_content = False
    own_message_fields = frozenset({"reasoning_content", "reasoning"})
    thought_field: ClassVar[str] = "reasoning_content"
    _ERRORS: ClassVar[Mapping[FaultKind, tuple[int, str, str]]]

    system_is_first: ClassVar[bool] = False
    """Whether the model's template refuses system messages after the first message."""

    def broken_rule(self, request: RecordedRequest) -> str | None:
        roles = [message["role"] for message in request.body["messages"]]  # type: ignore[index,call-overload,union-attr]
        if self.system_is_first and "system" in roles[1:]:
            return NO_SYSTEM
        return super().broken_rule(request)

    def unknown_field(self, name: str) -> str:
        return f"Extra inputs are not permitted: {name}"

    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        return None

    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        if answer.reasoning:
            message[self.thought_field] = answer.reasoning

    def usage_of(self, answer: Answer) -> JsonObject:
        usage = answer.usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }

    def error_body(self, status: int, kind: str, text: str) -> JsonObject:
        """Return an error in the server's format."""
        return {"error": {"message": text, "type": kind, "code": status}}

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        if fault.kind == "rate":
            wait = (
                {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
            )
            return ErrorResponse(429, "Too Many Requests", wait)
        status, kind, usual = self._ERRORS[fault.kind]
        return ErrorResponse(status, self.error_body(status, kind, fault.message or usual))


class VllmChat(LocalChatServer):
    """vLLM with a template that takes system messages at the beginning only."""

    name = "vllm"
    thought_field = "reasoning"
    system_is_first = True
    _ERRORS: ClassVar[Mapping[FaultKind, tuple[int, str, str]]] = {
        "invalid": (400, "BadRequestError", "invalid request"),
        "key": (401, "Unauthorized", "Unauthorized"),
        "not_found": (404, "NotFoundError", "The model `no-such-model` does not exist."),
        "server": (500, "InternalServerError", "EngineCore encountered an issue."),
        "overloaded": (503, "ServiceUnavailableError", "The server is overloaded."),
        "overflow": (
            *(400, "BadRequestError"),
            "This model's maximum context length is 8192 tokens. However, your request has 9000 input "
            "tokens. Please reduce the length of the input messages.",
        ),
    }

    def usage_of(self, answer: Answer) -> JsonObject:
        cached: JsonObject = {"cached_tokens": answer.usage.cached_tokens}
        return {**super().usage_of(answer), "prompt_tokens_details": cached}

    def error_body(self, status: int, kind: str, text: str) -> JsonObject:
        return (
            {"error": "Unauthorized"} if status == 401 else super().error_body(status, kind, text)
        )


class LlamaCppChat(LocalChatServer):
    """llama.cpp's server in router mode, where a model has to exist."""

    name = "llamacpp"
    _ERRORS: ClassVar[Mapping[FaultKind, tuple[int, str, str]]] = {
        "invalid": (400, "invalid_request_error", "invalid request"),
        "key": (401, "authentication_error", "Invalid API Key"),
        "not_found": (400, "invalid_request_error", "model 'no-such-model' not found"),
        "server": (500, "server_error", "failed to decode the batch"),
        "overloaded": (503, "unavailable_error", "Loading model"),
        "overflow": (
            *(400, "exceed_context_size_error"),
            "the request exceeds the available context size, try increasing it",
        ),
    }

    def usage_of(self, answer: Answer) -> JsonObject:
        cached: JsonObject = {"cached_tokens": answer.usage.cached_tokens}
        return {**super().usage_of(answer), "prompt_tokens_details": cached}


class LmStudioChat(LocalChatServer):
    """LM Studio; some of its errors are a text."""

    name = "lmstudio"
    _ERRORS: ClassVar[Mapping[FaultKind, tuple[int, str, str]]] = {
        "invalid": (400, "invalid_request_error", "invalid request"),
        "key": (401, "invalid_request_error", "Invalid API token"),
        "not_found": (404, "invalid_request_error", 'Model "no-such-model" not found.'),
        "server": (500, "internal_error", "The model has crashed without additional information."),
        "overloaded": (503, "internal_error", "The model is not ready yet."),
        "overflow": (
            *(400, "text"),
            "The number of tokens to keep from the initial prompt is greater than the context length. Try "
            "to load the model with a larger context length, or provide a shorter input",
        ),
    }

    def error_body(self, status: int, kind: str, text: str) -> JsonObject:
        return {"error": text} if kind == "text" else super().error_body(status, kind, text)
