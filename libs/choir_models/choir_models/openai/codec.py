"""Rendering of chat completion requests, and parsing of their responses. Pure.

The parser accepts what compatible providers really send: unknown fields, missing usage, content in parts,
malformed tool calls. A malformed call is passed on unchanged: the arbiter refuses it and the model receives
the error, so it cannot break a session.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from choir_common.wire.config import ModelConfig
from choir_common.wire.prompt_marks import TOOL_PICTURES_HEADING
from choir_common.wire.validation_messages import error_message
from choir_models.model import Completion, ModelFailed, Prompt, ProposedCall
from choir_models.provider_errors import error_from_body
from choir_models.provider_fields import call_fields, message_fields

MAX_TEXT = 200_000
# Longer arguments are cut, so that the arbiter refuses them as malformed.
MAX_ARGUMENTS = 200_000
MAX_CALLS = 100
"""Maximum tool calls in one output; a larger number indicates a loop."""
MAX_TOKENS = 10_000_000
"""Upper bound on reported usage; a larger number is a provider's mistake."""
CUT = "[cut off here: the model reached the limit of its output]"


def render_request(settings: ModelConfig, prompt: Prompt) -> bytes:
    """Return the request body; messages and tools are already JSON."""
    head: dict[str, JsonValue] = {"model": settings.model}
    if settings.temperature is not None:
        head["temperature"] = settings.temperature
    if settings.reasoning_effort is not None:
        head["reasoning_effort"] = settings.reasoning_effort
    if settings.max_completion_tokens is not None:
        head["max_completion_tokens"] = settings.max_completion_tokens
    # The operator's request template may override the fields above.
    head |= settings.request.body_fields()
    if prompt.json_only:
        head["response_format"] = {"type": "json_object"}
    body = [
        orjson.dumps(head)[:-1],
        b',"messages":[',
        b",".join(move_tool_pictures(prompt.messages)),
        b"]",
    ]
    if prompt.tools != b"[]":
        body += [b',"tools":', prompt.tools]
    return b"".join([*body, b"}"])


def move_tool_pictures(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with the pictures of tool results in a user message that follows the results.

    Chat Completions takes only text in a tool message.
    """
    rendered: list[bytes] = []
    pictures: list[JsonValue] = []
    for message in messages:
        if not message.startswith(b'{"role":"tool"'):
            rendered += _picture_message(pictures)
            pictures = []
            rendered.append(message)
            continue
        if b'"image_url"' not in message:
            rendered.append(message)
            continue
        fields = orjson.loads(message)
        parts = fields["content"]
        if isinstance(parts, list):
            fields["content"] = "".join(part["text"] for part in parts if part["type"] == "text")
            pictures += [part for part in parts if part["type"] != "text"]
        rendered.append(orjson.dumps(fields))
    return rendered + _picture_message(pictures)


def _picture_message(pictures: list[JsonValue]) -> list[bytes]:
    if not pictures:
        return []
    heading: JsonValue = {"type": "text", "text": TOOL_PICTURES_HEADING}
    return [orjson.dumps({"role": "user", "content": [heading, *pictures]})]


class _CompletionModel(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Message(_CompletionModel):
    model_config = ConfigDict(extra="allow")
    content: JsonValue = None
    tool_calls: JsonValue = None
    refusal: JsonValue = None


class _Choice(_CompletionModel):
    message: _Message
    finish_reason: JsonValue = None
    error: JsonValue = None


class _CompletionBody(_CompletionModel):
    choices: list[_Choice] = Field(default_factory=list)
    model: JsonValue = None
    usage: JsonValue = None
    error: JsonValue = None


def read_response(body: bytes, asked_model: str, duration_ms: float) -> Completion:
    """Parse the response body.

    Raises ModelFailed if the body is not a chat completion or a content filter removed the answer. An error
    with status 200 is classified by `provider_errors` and raised.
    """
    completion = _parse(body)
    choice = completion.choices[0] if completion.choices else None
    error = completion.error or (choice and choice.error)
    # Some providers report an error next to a complete answer: then the answer counts.
    if error and (choice is None or not choice.message.content):
        raise error_from_body(error, datetime.now(UTC))
    if choice is None:
        raise ModelFailed("the provider's response contains no choice", cause="format")
    finish = choice.finish_reason if isinstance(choice.finish_reason, str) else "stop"
    if finish == "content_filter":
        raise ModelFailed("the provider's content filter blocked the answer", cause="filter")
    text = (_text(choice.message.content) or _text(choice.message.refusal))[:MAX_TEXT]
    calls, dropped = _calls(choice.message.tool_calls)
    notes = [f"[{dropped} more tool calls were dropped: at most {MAX_CALLS} at once]"] * bool(
        dropped
    )
    if finish == "length" and not calls:
        notes.append(CUT)
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    return Completion(
        text="\n\n".join([text, *notes] if text else notes),
        calls=calls,
        model=completion.model if isinstance(completion.model, str) else asked_model,
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        duration_ms=round(duration_ms, 3),
        cached_tokens=_cached(usage),
        fields=message_fields(choice.message.model_extra or {}, choice.message.content),
    )


def _parse(body: bytes) -> _CompletionBody:
    try:
        return _CompletionBody.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "body"
        raise ModelFailed(
            f"the provider's answer is not a chat completion ({where}: {error_message(fault)})",
            cause="format",
        ) from error


def _text(content: JsonValue) -> str:
    match content:
        case str():
            return content
        case list():
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            return "".join(part for part in parts if isinstance(part, str))
    return ""


def _calls(proposed: JsonValue) -> tuple[tuple[ProposedCall, ...], int]:
    """Return the accepted calls, and the number of calls beyond the limit."""
    calls = proposed if isinstance(proposed, list) else [proposed] if proposed else []
    return tuple(map(_proposed, calls[:MAX_CALLS])), max(0, len(calls) - MAX_CALLS)


def _proposed(call: JsonValue) -> ProposedCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return ProposedCall("", "{}")
    name, arguments = function.get("name"), function.get("arguments")
    # Some servers send an object instead of text, or nothing if there are no arguments.
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
    return ProposedCall(
        name[:200] if isinstance(name, str) else "",
        (text or "{}")[:MAX_ARGUMENTS],
        call_fields(call) if isinstance(call, dict) else {},
    )


def _count(tokens: JsonValue) -> int:
    if isinstance(tokens, bool) or not isinstance(tokens, int | float):
        return 0
    return int(min(max(tokens, 0), MAX_TOKENS))


def _cached(usage: dict[str, JsonValue]) -> int:
    details = usage.get("prompt_tokens_details")
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
