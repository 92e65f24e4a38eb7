"""Write a chat completion request and read its response: pure.

Called by `openai_model`. The reader takes what compatible providers really send: unknown fields,
missing usage, content in parts.
"""

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from choir_agent.models.model import ModelFailed, ProposedCall, Thought
from choir_agent.prompt.assemble import Prompt
from choir_common.wire.config import ModelConfig

MAX_TEXT = 200_000
# longer arguments are cut, so that the arbiter finds them malformed and says so
MAX_ARGUMENTS = 200_000


def render_request(settings: ModelConfig, prompt: Prompt) -> bytes:
    """Return the request body; messages and tools are already JSON."""
    head: dict[str, JsonValue] = {"model": settings.model}
    if settings.temperature is not None:
        head["temperature"] = settings.temperature
    if settings.reasoning_effort is not None:
        head["reasoning_effort"] = settings.reasoning_effort
    body = [orjson.dumps(head)[:-1], b',"messages":[', b",".join(prompt.messages), b"]"]
    if prompt.tools != b"[]":
        body += [b',"tools":', prompt.tools]
    return b"".join([*body, b"}"])


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Function(_Lenient):
    name: str
    arguments: JsonValue = "{}"


class _Call(_Lenient):
    function: _Function


class _Message(_Lenient):
    content: JsonValue = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None


class _Choice(_Lenient):
    message: _Message
    finish_reason: str | None = None


class _Usage(_Lenient):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(_Lenient):
    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: _Usage | None = None


def read_response(body: bytes, asked_model: str, duration_ms: float) -> Thought:
    """Return the model's thought.

    Raises ModelFailed when the body is not a chat completion, or a filter held it back.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "body"
        raise ModelFailed(
            f"the provider's answer is not a chat completion ({where}: {fault['msg']})"
        ) from error
    choice = completion.choices[0]
    if choice.finish_reason == "content_filter":
        raise ModelFailed("the provider's content filter held the answer back")
    usage = completion.usage or _Usage()
    return Thought(
        text=(_text(choice.message.content) or choice.message.refusal or "")[:MAX_TEXT],
        calls=tuple(_proposed(call) for call in choice.message.tool_calls or ()),
        model=completion.model or asked_model,
        finish_reason=choice.finish_reason or "stop",
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        duration_ms=round(duration_ms, 3),
    )


def _text(content: JsonValue) -> str:
    match content:
        case str():
            return content
        case list():
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            return "".join(part for part in parts if isinstance(part, str))
    return ""


def _proposed(call: _Call) -> ProposedCall:
    arguments = call.function.arguments
    # some servers send an object where the interface says text
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return ProposedCall(call.function.name[:200], (text or "{}")[:MAX_ARGUMENTS])
