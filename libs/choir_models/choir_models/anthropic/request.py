"""Rendering of requests to the Messages API. Pure."""

from functools import lru_cache

import orjson
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.anthropic.content import text_blocks
from choir_models.anthropic.conversation import Conversation, read_message
from choir_models.cache_points import cache_mark, cache_points, cache_ttl
from choir_models.completion_limits import request_limit
from choir_models.model import Prompt

JSON_ONLY = "Answer with one JSON object and nothing else: no remarks, no code fence."
DROP_UNBOUND_THINKING: JsonObject = {"prefix_mismatch_behavior": "drop_block"}
BINDING_BETA = "thinking-binding-controls-2026-08-01"
_BETA = "anthropic-beta"


def render_request(
    settings: ModelConfig, prompt: Prompt, *, drops_unbound_thinking: bool = False
) -> JsonObject:
    """Return the request's body, without `stream`.

    With `drops_unbound_thinking`, the API ignores thoughts from before a change of the history instead of
    refusing the request.
    """
    conversation = _translate(settings, prompt)
    body: JsonObject = {
        "model": settings.model,
        # The API requires a limit.
        "max_tokens": request_limit(settings),
        **_thinking(settings),
        # The operator's request template may override the fields above.
        **settings.request.body_fields(),
    }
    _fit_thinking(body, conversation, drops_unbound=drops_unbound_thinking)
    if prompt.tools != b"[]":
        body["tools"] = _tools(prompt.tools)
    system = [*conversation.system, *(text_blocks(JSON_ONLY) if prompt.json_only else [])]
    if system:
        body["system"] = [*system]
    body["messages"] = [*conversation.messages]
    return body


def request_headers(
    settings: ModelConfig, *, drops_unbound_thinking: bool = False
) -> dict[str, str]:
    """Return the headers to add to a request: the operator's, and those of beta features in use."""
    headers = dict(settings.request.extra_headers)
    if drops_unbound_thinking:
        name = next((name for name in headers if name.lower() == _BETA), _BETA)
        headers[name] = ",".join(filter(None, (headers.get(name), BINDING_BETA)))
    return headers


def _thinking(settings: ModelConfig) -> JsonObject:
    """Return the fields that control thinking; current models take an effort, older ones a budget."""
    fields: JsonObject = {}
    if settings.thinking_budget:
        fields["thinking"] = {"type": "enabled", "budget_tokens": settings.thinking_budget}
    elif settings.thinking_budget == 0:
        fields["thinking"] = {"type": "disabled"}
    elif settings.reasoning_effort is not None:
        fields["thinking"] = {"type": "adaptive"}
    if settings.reasoning_effort is not None:
        fields["output_config"] = {"effort": settings.reasoning_effort}
    return fields


def _fit_thinking(body: JsonObject, conversation: Conversation, *, drops_unbound: bool) -> None:
    """Change the fields that control thinking so that the API accepts the history."""
    # Models that bind thoughts to their history think adaptively if nothing is said.
    default: JsonValue = {"type": "adaptive"} if drops_unbound else None
    thinking = body.get("thinking", default)
    if not isinstance(thinking, dict):
        return
    if thinking.get("type") == "enabled" and conversation.lacks_thinking():
        del body["thinking"]
    elif drops_unbound and thinking.get("type") in ("adaptive", "enabled"):
        body["thinking"] = {**thinking, "block_binding": DROP_UNBOUND_THINKING}


def _translate(settings: ModelConfig, prompt: Prompt) -> Conversation:
    ttl = cache_ttl(settings)
    points = cache_points(prompt) if ttl is not None else frozenset()
    conversation = Conversation()
    for index, raw in enumerate(prompt.messages):
        conversation.add(read_message(raw))
        if ttl is not None and index in points:
            conversation.mark_cache_point(cache_mark(ttl))
    conversation.finish()
    return conversation


@lru_cache(maxsize=16)
def _read_tools(tools: bytes) -> tuple[JsonObject, ...]:
    parsed: list[JsonObject] = orjson.loads(tools)
    return tuple(_tool(tool["function"]) for tool in parsed)


def _tools(tools: bytes) -> list[JsonValue]:
    return [*_read_tools(tools)]


def _tool(function: JsonValue) -> JsonObject:
    described = function if isinstance(function, dict) else {}
    parameters = described.get("parameters")
    schema = parameters if isinstance(parameters, dict) else {}
    # The API refuses alternatives at the top of a schema; the arbiter checks them.
    refused = ("oneOf", "anyOf", "allOf")
    own = {name: value for name, value in schema.items() if name not in refused}
    tool: JsonObject = {"name": described.get("name")}
    if described.get("description"):
        tool["description"] = described["description"]
    return {**tool, "input_schema": {"type": "object", **own}}
