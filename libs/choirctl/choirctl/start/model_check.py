"""Check of a model: key, name, tool support, and its server's context length. Called by `health_checks`.

Sends one request with a tool through the model's own adapter, which may cost a fraction of a cent.
"""

import asyncio
from dataclasses import dataclass
from typing import Literal

import orjson

from choir_common.errors import RateLimited
from choir_common.wire.config import ModelConfig
from choir_models.context_windows import MIN_CONTEXT, ContextWindow
from choir_models.model import FailureCause, ModelFailed, NoModelResponse, Prompt
from choir_models.registry import ModelRegistry
from choir_models.servers.model_server import longer_context_command

TIMEOUT_MS = 60_000
ADVISED_CONTEXT = 32_768
TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "note",
                "description": "Write something down.",
                "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
            },
        }
    ]
)
PROMPT = Prompt(
    (orjson.dumps({"role": "user", "content": "Answer with the word ok."}),), tools=TOOLS
)
FIXES: dict[FailureCause, str] = {
    "key": "Store a valid one: `choirctl secret set {secret}`, then `choirctl secret apply`.",
    "credit": "The account has no credit.",
    "not_found": "There is no model of that name at this address, or it cannot use tools.",
    "request": "The model may not support tools.",
}


@dataclass(frozen=True, slots=True)
class ModelCheckResult:
    """Result of the check."""

    outcome: Literal["ok", "warn", "fail"]
    detail: str


async def check_model(model: ModelConfig, key: str | None) -> ModelCheckResult:
    """Send one request to the provider; any response or transport error becomes a result."""
    label = f"{model.model} at {model.endpoint}"
    registry = ModelRegistry()
    try:
        window = await registry.windows.find(model, key)
        changes = {"context_window": window.tokens, "timeout_ms": TIMEOUT_MS}
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await registry.think(model.model_copy(update=changes), key, PROMPT)
    except TimeoutError:
        detail = f"its answer was not complete after {TIMEOUT_MS / 1000:g} s."
        return ModelCheckResult("fail", f"{label}: {detail}")
    except RateLimited as error:
        detail = f"{error.message}, or the account has no credit."
        return ModelCheckResult("fail", f"{label}: {detail}")
    except NoModelResponse as error:
        return ModelCheckResult("fail", f"{label} does not answer: {error.message}.")
    except ModelFailed as error:
        fix = FIXES.get(error.cause, "").format(secret=model.secret or "NAME")
        return ModelCheckResult("fail", f"{label}: {error.message}. {fix}".rstrip())
    finally:
        await registry.close()
    return _check_context(model, window, label)


def _check_context(model: ModelConfig, window: ContextWindow, label: str) -> ModelCheckResult:
    """Return whether the context window is long enough, and otherwise the command that lengthens it."""
    size = f"{window.tokens:,} tokens"
    is_own = model.provider_properties.is_own_server or model.api == "ollama"
    if is_own and (window.server is None or not window.is_known):
        return ModelCheckResult(
            "warn",
            f"{label} responds, but does not report its context length: {size} are assumed. "
            f"{_unknown_advice(model)}",
        )
    if window.server is None or window.tokens >= ADVISED_CONTEXT:
        reads = "" if window.sees is None else f", {'reads' if window.sees else 'no'} pictures"
        return ModelCheckResult("ok", f"{label} responds and supports tools; context {size}{reads}")
    command = longer_context_command(window.server, model.model, ADVISED_CONTEXT)
    return ModelCheckResult(
        "fail" if window.tokens < MIN_CONTEXT else "warn",
        f"{label} responds, but its context has only {size}{_consequence(window.tokens)} "
        f"For more: `{command}`.",
    )


def _consequence(tokens: int) -> str:
    if tokens < MIN_CONTEXT:
        return f", and agents need {MIN_CONTEXT:,}."
    probe = ModelConfig(model="m", context_window=tokens)
    return ": agents get short instructions and fewer tools." if probe.has_small_context else "."


def _unknown_advice(model: ModelConfig) -> str:
    if model.provider == "ollama" and model.api == "openai":
        return (
            "Ollama cuts longer prompts silently over this API: set the model's `api` to `ollama` and "
            "remove `/v1` from its endpoint."
        )
    return "Set the model's `context_window` in config.json."
