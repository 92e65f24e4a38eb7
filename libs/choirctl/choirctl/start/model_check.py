"""Check of a model's provider: key, model name, tool support and context length. Called by `health_checks`.

Sends one completion request with a tool, which may cost a fraction of a cent. For Ollama it also reads the
context length of the loaded model.
"""

import json
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.http.client import make_client
from choir_common.wire.config import ModelConfig

TIMEOUT_S = 60.0
MIN_CONTEXT = 16_000
"""Tokens: the first prompt takes 4,000, and the conversation has to fit after it."""
ADVISED_CONTEXT = 64_000
MAX_QUOTE = 300
TOOL = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Write something down.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}
FIXES = {
    401: "The key is not valid: `choirctl secret set {secret}`, then `choirctl secret apply`.",
    402: "The account has no credit.",
    403: "The key may not use this model.",
    404: "There is no model of that name at this address, or it cannot use tools.",
    429: "The provider limits requests, or the account has no credit.",
}


@dataclass(frozen=True, slots=True)
class ModelCheckResult:
    """Result of the check."""

    outcome: Literal["ok", "warn", "fail"]
    detail: str


class _Loaded(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str
    context_length: int | None = None


class _LoadedModels(BaseModel):
    model_config = ConfigDict(extra="ignore")
    models: tuple[_Loaded, ...] = ()


async def check_model(model: ModelConfig, key: str | None) -> ModelCheckResult:
    """Send one request to the provider; any response or transport error becomes a result."""
    label = f"{model.model} at {model.endpoint}"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = {
        "model": model.model,
        "messages": [{"role": "user", "content": "Answer with the word ok."}],
        "tools": [TOOL],
    }
    try:
        async with make_client(model.endpoint, headers=headers, timeout_s=TIMEOUT_S) as client:
            answer = await client.post("chat/completions", json=request)
    except httpx2.HTTPError as error:
        return ModelCheckResult(
            "fail", f"{label} does not answer: {error or type(error).__name__}."
        )
    if answer.is_error:
        return ModelCheckResult("fail", f"{label}: {_refusal(answer, model, key)}")
    if not _is_completion(answer):
        return ModelCheckResult("fail", f"{label} responds, but not as an OpenAI-compatible model.")
    if model.provider_properties.lists_loaded_models:
        return await _check_loaded_context(model, label)
    return ModelCheckResult(
        "ok", f"{label} responds and supports tools; context {model.context_window:,} tokens"
    )


async def _check_loaded_context(model: ModelConfig, label: str) -> ModelCheckResult:
    """Check the context length of the model that Ollama has just loaded."""
    place = urlsplit(model.endpoint)
    try:
        async with make_client(f"{place.scheme}://{place.netloc}", timeout_s=TIMEOUT_S) as client:
            running = _LoadedModels.model_validate_json((await client.get("/api/ps")).content)
    except (httpx2.HTTPError, ValidationError):
        running = _LoadedModels()
    length = next((it.context_length for it in running.models if it.name == model.model), None)
    advice = (
        f"Start Ollama with OLLAMA_CONTEXT_LENGTH={ADVISED_CONTEXT}: Ollama truncates longer "
        "prompts silently."
    )
    if length is None:
        return ModelCheckResult(
            "warn", f"{label} responds, but does not report its context length. {advice}"
        )
    if length < min(model.context_window, ADVISED_CONTEXT):
        outcome: Literal["warn", "fail"] = "fail" if length < MIN_CONTEXT else "warn"
        return ModelCheckResult(
            outcome, f"{label} responds, but its context has only {length:,} tokens. {advice}"
        )
    return ModelCheckResult("ok", f"{label} responds and supports tools; context {length:,} tokens")


def _refusal(answer: httpx2.Response, model: ModelConfig, key: str | None) -> str:
    text = " ".join(_error_text(answer).split())[:MAX_QUOTE]
    if key:
        text = text.replace(key, "…")
    fix = FIXES.get(answer.status_code, "").format(secret=model.secret or "NAME")
    quote = f'"{text}"' if text else "nothing more"
    return f"HTTP {answer.status_code}: {quote}. {fix}".rstrip()


def _error_text(answer: httpx2.Response) -> str:
    try:
        body = json.loads(answer.content)
    except ValueError:
        return answer.text
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message) if message else answer.text


def _is_completion(answer: httpx2.Response) -> bool:
    try:
        body = json.loads(answer.content)
    except ValueError:
        return False
    return isinstance(body, dict) and bool(body.get("choices"))
