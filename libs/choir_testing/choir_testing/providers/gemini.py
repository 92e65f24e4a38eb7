"""Fake of the Gemini API: `generateContent` and `streamGenerateContent`.

Strict about what the documentation demands: known fields only, alternating roles, one response per function
call, ids and thought signatures back unchanged in the part that they came in.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FakeProvider,
    FaultKind,
    RecordedRequest,
)

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
_PATH = re.compile(r"/v1(?:beta)?/models/(.+):(generateContent|streamGenerateContent)")
_FIELDS: Mapping[str, frozenset[str]] = {
    "request": frozenset(
        {
            *("contents", "systemInstruction", "tools", "toolConfig", "generationConfig"),
            *("safetySettings", "cachedContent", "continuationToken"),
        }
    ),
    "generation_config": frozenset(
        {
            *("temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed"),
            *("candidateCount", "thinkingConfig", "responseMimeType", "responseJsonSchema"),
            *("presencePenalty", "frequencyPenalty", "mediaResolution"),
        }
    ),
    "thinking_config": frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"}),
    "content": frozenset({"role", "parts"}),
    "part": frozenset(
        {
            *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
            *("thought", "thoughtSignature"),
        }
    ),
    "inline_data": frozenset({"mimeType", "data", "displayName"}),
    "function_call": frozenset({"id", "name", "args"}),
    "function_response": frozenset({"id", "name", "response", "parts"}),
    "function_declaration": frozenset(
        {"name", "description", "parameters", "parametersJsonSchema"}
    ),
}
_DATA = frozenset({"text", "inlineData", "fileData", "functionCall", "functionResponse"})
_LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MIME = re.compile(r"(image/(png|jpeg|webp|heic|heif|gif)|application/pdf|text/[a-z-]+|audio/\w+)")
_WORD = re.compile(r"\s*\S+\s*")
_ERRORS: Mapping[FaultKind, tuple[int, str, str]] = {
    "invalid": (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    "key": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "credit": (
        *(429, "RESOURCE_EXHAUSTED"),
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "not_found": (404, "NOT_FOUND", "models/x is not found for API version v1."),
    "rate": (
        *(429, "RESOURCE_EXHAUSTED"),
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "server": (500, "INTERNAL", "An internal error has occurred. Please retry or report."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "overflow": (
        *(400, "INVALID_ARGUMENT"),
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
}


class BrokenRule(Exception):
    """The request breaks a rule of the API."""


class Gemini(FakeProvider):
    """The Gemini API with one model that thinks and signs its calls."""

    api = "gemini"
    name = "gemini"
    paths = ("/v1/models/{action:path}", "/v1beta/models/{action:path}")
    limit_paths = (("generationConfig", "maxOutputTokens"),)
    limit_error = (
        "Unable to submit request because it has a maxOutputTokens value of {limit} but the supported "
        "range is from 1 (inclusive) to {over} (exclusive). Update the value and try again."
    )

    _DEFAULT_RETRY_S: ClassVar[float] = 1.0

    def __init__(self, *, model: str = "gemini-3-fake", **changes: Any) -> None:
        super().__init__(model=model, **changes)
        self.finish_reason = ""
        """Ends the next answers with this reason instead of their own."""
        self.continuations = 0
        """Number of the next answers that end with a token for their continuation."""
        self.quota_id = "GenerateRequestsPerMinutePerProjectPerModel"
        self.sent: list[list[JsonObject]] = []
        """The parts of each answer."""

    def key_of(self, request: RecordedRequest) -> str | None:
        """Return the key of the header; Gemini has no bearer tokens here."""
        return request.headers.get("x-goog-api-key")

    def model_of(self, request: RecordedRequest) -> JsonValue:
        """Return the model in the path."""
        match = _PATH.fullmatch(unquote(request.path))
        return match[1] if match else None

    def wants_stream(self, request: RecordedRequest) -> bool:
        """Return whether the method streams."""
        return request.path.endswith(":streamGenerateContent")

    def broken_rule(self, request: RecordedRequest) -> str | None:
        """Return which documented rule a request breaks."""
        try:
            self._check(request.body)
        except BrokenRule as rule:
            return str(rule)
        return None

    def _check(self, body: Any) -> None:
        _check_fields("request", body)
        config = body.get("generationConfig", {})
        _check_fields("generation_config", config)
        _check_thinking(config.get("thinkingConfig", {}))
        declarations = _check_tools(body.get("tools", []))
        if declarations and config.get("responseMimeType") == "application/json":
            raise BrokenRule(
                "Function calling with a response mime type: 'application/json' is unsupported"
            )
        for part in body.get("systemInstruction", {}).get("parts", []):
            if part.keys() != {"text"}:
                raise BrokenRule("systemInstruction supports text only.")
        contents = body.get("contents")
        if not contents:
            raise BrokenRule("contents is not specified")
        _check_contents(contents)
        _check_responses(contents)
        self._check_own_parts(contents)
        if not self.model.startswith("gemini-2"):
            _check_signatures(contents)
        elif any(
            response.get("parts") for c in contents for response in _of(c, "functionResponse")
        ):
            raise BrokenRule("Multimodal function responses are not supported by this model.")

    def _check_own_parts(self, contents: Sequence[Any]) -> None:
        """Check that signed parts come back exactly as they were sent."""
        own = [part for parts in self.sent for part in parts if "thoughtSignature" in part]
        for content in contents:
            for part in content["parts"]:
                signature = part.get("thoughtSignature")
                if signature not in (None, FOREIGN_SIGNATURE) and part not in own:
                    raise BrokenRule("Thought signature is not valid.")

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return a whole response."""
        parts = self._parts_of(answer)
        self.sent.append(parts)
        return self._response(parts, answer, is_end=True)

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return the parts one by one, text by words; each chunk has the usage."""
        parts = self._parts_of(answer)
        self.sent.append(parts)
        pieces = [piece for part in parts for piece in _pieces(part)] or [{"text": ""}]
        chunks = [
            self._response([piece], answer, is_end=number == len(pieces))
            for number, piece in enumerate(pieces, 1)
        ]
        return [b"data: " + orjson.dumps(chunk) + b"\r\n\r\n" for chunk in chunks]

    def _parts_of(self, answer: Answer) -> list[JsonObject]:
        number = len(self.sent) + 1
        # `+/` is standard base64, which an SDK may rewrite to the alphabet for addresses
        signature = base64.b64encode(b"\xfb\xff" + f"signature {number}".encode()).decode()
        parts: list[JsonObject] = [{"text": answer.text}] if answer.text else []
        for place, call in enumerate(answer.calls):
            function: JsonObject = {
                "id": f"fc{number}_{place}",
                "name": call.name,
                "args": call.arguments,
            }
            part: JsonObject = {"functionCall": function}
            # parallel calls: only the first one is signed
            parts.append(part if place else {**part, "thoughtSignature": signature})
        if answer.reasoning and not answer.calls:
            parts.append({"text": "", "thoughtSignature": signature})
        return parts

    def _response(self, parts: list[JsonObject], answer: Answer, *, is_end: bool) -> JsonObject:
        candidate: JsonObject = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
        if is_end:
            candidate["finishReason"] = self._finish(answer)
            if candidate["finishReason"] == "CONTINUATION":
                candidate["continuationToken"] = f"go on {len(self.sent)}"
            if candidate["finishReason"] == "MALFORMED_FUNCTION_CALL":
                candidate["finishMessage"] = "Malformed function call: print(default_api.look("
                candidate["content"] = {}
        usage = answer.usage
        output = usage.completion_tokens - usage.reasoning_tokens
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": usage.prompt_tokens,
                "promptTokensDetails": _modalities(
                    usage.prompt_tokens, usage.audio_input_tokens, usage.image_tokens
                ),
                "cachedContentTokenCount": usage.cached_tokens,
                "cacheTokensDetails": _modalities(usage.cached_tokens),
                "candidatesTokenCount": output,
                "candidatesTokensDetails": _modalities(output, usage.audio_output_tokens),
                "thoughtsTokenCount": usage.reasoning_tokens,
                "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
            },
            "modelVersion": self.model,
            "responseId": f"response-{len(self.sent)}",
        }

    def _finish(self, answer: Answer) -> str:
        if self.continuations:
            self.continuations -= 1
            return "CONTINUATION"
        if answer.is_filtered:
            return "SAFETY"
        return self.finish_reason or ("MAX_TOKENS" if answer.is_cut else "STOP")

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        """Return Google's error format; a blocked prompt has the status 200."""
        if fault.kind == "filter":
            feedback: JsonObject = {"blockReason": "PROHIBITED_CONTENT"}
            return ErrorResponse(200, {"promptFeedback": feedback, "modelVersion": self.model})
        status, name, message = _ERRORS[fault.kind]
        details: list[JsonValue] = []
        if fault.kind == "key":
            details.append({"@type": _type("ErrorInfo"), "reason": "API_KEY_INVALID"})
        if fault.kind == "rate":
            violation: JsonObject = {"quotaId": self.quota_id}
            delay = self._DEFAULT_RETRY_S if fault.retry_after_s is None else fault.retry_after_s
            details.append({"@type": _type("QuotaFailure"), "violations": [violation]})
            details.append({"@type": _type("RetryInfo"), "retryDelay": f"{delay:g}s"})
        text = fault.message or message
        error: JsonObject = {"code": status, "message": text, "status": name, "details": details}
        return ErrorResponse(status, {"error": error})

    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        """Return the inline data of all parts, also of those inside function responses."""
        return [data["data"] for data in _inline_data(request.body["contents"])]


def _type(name: str) -> str:
    return f"type.googleapis.com/google.rpc.{name}"


def _check_fields(kind: str, value: Mapping[str, Any]) -> None:
    for name in value.keys() - _FIELDS[kind]:
        raise BrokenRule(
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{kind}': Cannot find field."
        )


def _check_thinking(thinking: Mapping[str, Any]) -> None:
    _check_fields("thinking_config", thinking)
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        raise BrokenRule("You can only set only one of thinking budget and thinking level.")
    if thinking.get("thinkingLevel", "LOW") not in _LEVELS:
        raise BrokenRule("Invalid value at 'generation_config.thinking_config.thinking_level'")


def _check_tools(tools: Sequence[Any]) -> list[Any]:
    declarations = [item for tool in tools for item in tool["functionDeclarations"]]
    for declaration in declarations:
        _check_fields("function_declaration", declaration)
        if not _TOOL_NAME.fullmatch(declaration["name"]):
            raise BrokenRule("Invalid function name. Must start with a letter or an underscore.")
        if "parameters" in declaration and "parametersJsonSchema" in declaration:
            raise BrokenRule("parameters and parametersJsonSchema are mutually exclusive.")
        schema = declaration.get("parametersJsonSchema", {"type": "object"})
        if schema.get("type") != "object":
            raise BrokenRule("parametersJsonSchema must be an object schema.")
    return declarations


def _check_contents(contents: Sequence[Any]) -> None:
    for number, content in enumerate(contents):
        _check_fields("content", content)
        if content.get("role") != ("model" if number % 2 else "user"):
            raise BrokenRule(
                "Please ensure that multiturn requests alternate between user and model."
            )
        if not content.get("parts"):
            raise BrokenRule(
                "Unable to submit request because it must include at least one parts field."
            )
        for part in content["parts"]:
            _check_part(part)
    if contents[-1]["role"] != "user":
        raise BrokenRule("Please ensure that multiturn requests end with a user role.")


def _check_part(part: Mapping[str, Any]) -> None:
    _check_fields("part", part)
    data = part.keys() & _DATA
    if len(data) != 1:
        raise BrokenRule("required oneof field 'data' must have one initialized field")
    if part.get("text") == "" and "thoughtSignature" not in part:
        raise BrokenRule("Unable to submit request because it must have a text parameter.")
    if "inlineData" in part:
        _check_inline(part["inlineData"])
    if "functionCall" in part:
        _check_fields("function_call", part["functionCall"])
        if not isinstance(part["functionCall"].get("args", {}), dict):
            raise BrokenRule("Invalid value at 'function_call.args' (type.googleapis.com/Struct)")
    if "functionResponse" in part:
        response = part["functionResponse"]
        _check_fields("function_response", response)
        if not isinstance(response.get("response"), dict):
            raise BrokenRule("Invalid value at 'function_response.response' (Struct)")
        for inner in response.get("parts", []):
            _check_inline(inner["inlineData"])


def _check_inline(data: Mapping[str, Any]) -> None:
    _check_fields("inline_data", data)
    if not _MIME.fullmatch(data.get("mimeType", "")):
        raise BrokenRule(f"Unsupported MIME type: {data.get('mimeType')}")
    try:
        base64.b64decode(data["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BrokenRule("Base64 decoding failed.") from error


def _check_responses(contents: Sequence[Any]) -> None:
    """Check that each call has one response, in the order of the calls and with their ids."""
    calls: list[Any] = []
    for content in contents:
        responses = _of(content, "functionResponse")
        if len(responses) != len(calls):
            raise BrokenRule(
                "Please ensure that the number of function response parts is equal to the number of "
                "function call parts of the function call turn."
            )
        for call, response in zip(calls, responses, strict=True):
            if (call["name"], call.get("id")) != (response["name"], response.get("id")):
                raise BrokenRule("Function response does not match the id or name of its call.")
        if responses and not all(
            "functionResponse" in p for p in content["parts"][: len(responses)]
        ):
            raise BrokenRule("Function responses must come first in their content.")
        calls = _of(content, "functionCall")


def _check_signatures(contents: Sequence[Any]) -> None:
    """Check the current turn: the first call of each step must be signed."""
    begins = [
        n for n, c in enumerate(contents) if c["role"] == "user" and not _of(c, "functionResponse")
    ]
    for number, content in enumerate(contents[begins[-1] :] if begins else contents, 1):
        signed = [part for part in content["parts"] if "functionCall" in part][:1]
        if any("thoughtSignature" not in part for part in signed):
            raise BrokenRule(
                "Function call is missing a thought_signature in functionCall parts. This is required "
                f"for tools to work correctly. Position {number}."
            )


def _of(content: Mapping[str, Any], name: str) -> list[Any]:
    return [part[name] for part in content["parts"] if name in part]


def _pieces(part: JsonObject) -> list[JsonObject]:
    text = part.get("text")
    if not isinstance(text, str) or "thoughtSignature" in part:
        return [part]
    return [{"text": word} for word in _WORD.findall(text) or [text]]


def _inline_data(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _inline_data(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "inlineData":
                yield item
            else:
                yield from _inline_data(item)


def _modalities(tokens: int, audio: int = 0, image: int = 0) -> list[JsonValue]:
    """Return tokens by modality; text is the rest."""
    counts = {"TEXT": tokens - audio - image, "AUDIO": audio, "IMAGE": image}
    return [{"modality": name, "tokenCount": count} for name, count in counts.items() if count]
