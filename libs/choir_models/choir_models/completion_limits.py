"""The longest output that a request to a model allows: the one place that decides it. Pure.

A budget in money reserves this length and sends it with the request, so that a provider cannot bill more than
was reserved. All providers count the tokens of hidden reasoning in it.
"""

from typing import cast

from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.model_config import ModelApi

DEFAULT_LIMIT = 32_000
"""Tokens of an output without a configured limit, besides a thinking budget. A model that allows less says so
in an error, and gets less from then on (`refused_parameters`)."""
LEAST_LIMIT = 2_000
"""Tokens of the shortest output that is worth a call, besides a thinking budget."""

_PLACES: dict[ModelApi, tuple[tuple[str, ...], ...]] = {
    "openai": (("max_completion_tokens",), ("max_tokens",)),
    "openai-responses": (("max_output_tokens",),),
    "anthropic": (("max_tokens",),),
    "gemini": (("generationConfig", "maxOutputTokens"),),
    "ollama": (("options", "num_predict"),),
}
"""Paths of the limit in each API's request; `request.extra_body` may set it there."""
_MAX_TOKENS_ONLY = (
    *("api.deepseek.com", "api.mistral.ai", "api.together.xyz", "api.together.ai"),
    *("api.perplexity.ai", "api.cohere.ai"),
)
"""Providers of Chat Completions that document only the older name of the limit."""


def request_limit(settings: ModelConfig, prompt_tokens: int = 0) -> int:
    """Return the limit of the request's output: a configured one, or the default.

    The default leaves room for a prompt of this length in the context window, because servers refuse a
    request whose prompt and limit exceed it together.
    """
    configured = configured_limit(settings)
    if configured is not None:
        return configured
    room = max(settings.window_tokens - prompt_tokens, settings.window_tokens // 4)
    return min(DEFAULT_LIMIT + _thinking_tokens(settings), room)


def configured_limit(settings: ModelConfig) -> int | None:
    """Return the limit in the model's settings; `request.extra_body` overrides the others."""
    limits = [_read(settings.request.extra_body, path) for path in _PLACES[settings.api]]
    own_limits = [limit for limit in limits if limit is not None]
    return max(own_limits) if own_limits else settings.max_completion_tokens


def least_limit(settings: ModelConfig, least: int = LEAST_LIMIT) -> int:
    """Return the shortest limit that is worth a call; the thoughts of a budget come before an answer."""
    return least + _thinking_tokens(settings)


def with_limit(settings: ModelConfig, tokens: int) -> ModelConfig:
    """Return the settings of a request whose output has at most this number of tokens.

    A limit in `request.extra_body` keeps its place and gets this value, because the server may know only it.
    """
    body = settings.request.extra_body
    for path in _PLACES[settings.api]:
        body = _replace(body, path, tokens)
    template = settings.request.model_copy(update={"extra_body": body})
    changes = {"max_completion_tokens": tokens, "request": template}
    return settings.model_copy(update=changes)


def limit_names(settings: ModelConfig) -> tuple[str, ...]:
    """Return the names of the limit in the API's requests, the one to send first."""
    names = tuple(path[-1] for path in _PLACES[settings.api])
    host = settings.endpoint.partition("://")[2].partition("/")[0]
    return names[::-1] if host in _MAX_TOKENS_ONLY else names


def _thinking_tokens(settings: ModelConfig) -> int:
    """Return the tokens of a thinking budget, which come in addition to those of an answer."""
    thinking = settings.request.extra_body.get("thinking")
    own = _count(thinking.get("budget_tokens")) if isinstance(thinking, dict) else None
    return own or settings.thinking_budget or 0


def _read(body: JsonObject, path: tuple[str, ...]) -> int | None:
    """Return the limit at a path; None if there is none, or one that means no limit."""
    value: JsonValue = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return _count(value)


def _count(value: JsonValue) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return cast("int", value) if is_count else None


def _replace(body: JsonObject, path: tuple[str, ...], tokens: int) -> JsonObject:
    """Return the body with another limit at a path where it has one, whatever it was."""
    name, *rest = path
    inner = body.get(name)
    if name not in body:
        return body
    if not rest:
        return {**body, name: tokens}
    return {**body, name: _replace(inner, tuple(rest), tokens)} if isinstance(inner, dict) else body
