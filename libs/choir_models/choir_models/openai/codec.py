"""Rendering of chat completion requests, and parsing of their responses. Pure.

The parser accepts what compatible providers really send: unknown fields, missing usage, content in parts,
malformed tool calls. A malformed call is passed on unchanged: the arbiter refuses it and the model receives
the error, so it cannot break a session.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from choir_common.i18n import _
from choir_common.wire.config import ModelConfig
from choir_common.wire.prompt_marks import TOOL_PICTURES_HEADING
from choir_models.billing import billed_usd
from choir_models.body_parser import build_call, parse_body
from choir_models.cache_points import marked_messages
from choir_models.completion_limits import limit_names
from choir_models.model import Completion, ModelFailed, Prompt, ProposedCall
from choir_models.openai.stream import content_text
from choir_models.output_limits import MAX_CALLS, text_with_notes, token_count
from choir_models.provider_errors import error_from_body
from choir_models.provider_fields import call_fields, message_fields

SYSTEM = b'{"role":"system"'
MARK = "[Choir] "


class Streaming(StrEnum):
    """How a request asks for the response."""

    COUNTED = "streamed, with the usage"
    UNCOUNTED = "streamed"
    """For servers that refuse `stream_options`."""
    NONE = "whole"


def render_request(
    settings: ModelConfig,
    prompt: Prompt,
    streaming: Streaming = Streaming.NONE,
    *,
    system_is_first: bool = False,
) -> bytes:
    """Return the request body; messages and tools are already JSON.

    With `system_is_first`, remarks of Choir's inside the conversation are messages of the user.
    """
    head: dict[str, JsonValue] = {"model": settings.model}
    if settings.temperature is not None:
        head["temperature"] = settings.temperature
    if settings.reasoning_effort is not None:
        head["reasoning_effort"] = settings.reasoning_effort
    limit = _limit_name(settings, prompt)
    if settings.max_completion_tokens is not None and limit is not None:
        head[limit] = settings.max_completion_tokens
    # The operator's request template may override the fields above.
    head |= settings.request.body_fields()
    if prompt.json_only and "response_format" not in prompt.without:
        head["response_format"] = {"type": "json_object"}
    if streaming is not Streaming.NONE:
        head["stream"] = True
    if streaming is Streaming.COUNTED:
        head["stream_options"] = {"include_usage": True}
    messages = remarks_by_user(prompt.messages) if system_is_first else prompt.messages
    sent = replace(prompt, messages=tuple(move_tool_pictures(messages)))
    body = [
        orjson.dumps(head)[:-1],
        b',"messages":[',
        b",".join(marked_messages(settings, sent)),
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


def remarks_by_user(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with system messages after the first other one as marked messages of the user."""
    rendered: list[bytes] = []
    is_beginning = True
    for message in messages:
        is_system = message.startswith(SYSTEM)
        is_beginning &= is_system
        if is_system and not is_beginning:
            text = str(orjson.loads(message)["content"])
            marked = text if text.startswith(MARK) else MARK + text
            rendered.append(orjson.dumps({"role": "user", "content": marked}))
        else:
            rendered.append(message)
    return rendered


def _picture_message(pictures: list[JsonValue]) -> list[bytes]:
    if not pictures:
        return []
    heading: JsonValue = {"type": "text", "text": TOOL_PICTURES_HEADING}
    return [orjson.dumps({"role": "user", "content": [heading, *pictures]})]


def _limit_name(settings: ModelConfig, prompt: Prompt) -> str | None:
    """Return the name of the output's limit that the model has not refused, unless the template sends it."""
    names = limit_names(settings)
    if any(name in settings.request.extra_body for name in names):
        return None
    return next((name for name in names if name not in prompt.without), None)


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
    completion = parse_body(_CompletionBody, body, "the provider's answer is not a chat completion")
    choice = completion.choices[0] if completion.choices else None
    error = completion.error or (choice and choice.error)
    # Some providers report an error next to a complete answer: then the answer counts.
    if error and (choice is None or not choice.message.content):
        raise error_from_body(error, datetime.now(UTC))
    result = _build_completion(completion, choice or _Choice(message=_Message()))
    result = replace(result, model=result.model or asked_model, duration_ms=round(duration_ms, 3))
    # The provider bills what it refuses to show.
    if choice is None:
        message = _("the provider's response contains no choice")
        raise ModelFailed(message, cause="format", spent=result)
    # Gemini adds its reason.
    if result.finish_reason.startswith("content_filter"):
        message = _("the provider's content filter blocked the answer")
        raise ModelFailed(message, cause="filter", spent=result)
    return result


def _build_completion(completion: _CompletionBody, choice: _Choice) -> Completion:
    """Return the completion without its duration."""
    finish = choice.finish_reason if isinstance(choice.finish_reason, str) else "stop"
    text = content_text(choice.message.content) or content_text(choice.message.refusal)
    proposed = choice.message.tool_calls
    calls = proposed if isinstance(proposed, list) else [proposed] if proposed else []
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    prompt, output = (
        _details(usage, f"{part}_tokens_details") for part in ("prompt", "completion")
    )
    return Completion(
        text=text_with_notes(text, calls=len(calls), is_cut=finish == "length"),
        calls=tuple(map(_proposed, calls[:MAX_CALLS])),
        model=completion.model if isinstance(completion.model, str) else "",
        finish_reason=finish,
        prompt_tokens=token_count(usage.get("prompt_tokens")),
        completion_tokens=token_count(usage.get("completion_tokens")),
        duration_ms=0.0,
        # DeepSeek reports cached tokens by a name of its own.
        cached_tokens=token_count(
            prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")
        ),
        cache_write_tokens=token_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=token_count(output.get("reasoning_tokens")),
        audio_input_tokens=token_count(prompt.get("audio_tokens")),
        audio_output_tokens=token_count(output.get("audio_tokens")),
        image_tokens=token_count(prompt.get("image_tokens")),
        billed_usd=billed_usd(usage),
        fields=message_fields(choice.message.model_extra or {}, choice.message.content),
    )


def _proposed(call: JsonValue) -> ProposedCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return ProposedCall("", "{}")
    return build_call(function, call_fields(call))


def _details(usage: dict[str, JsonValue], name: str) -> dict[str, JsonValue]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}
