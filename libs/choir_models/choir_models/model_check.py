"""Check of a model by one request with a tool: key, name, tool support, and its server's context length.

The request goes through the model's own adapter, and may cost a fraction of a cent. `choirctl doctor` makes
it in its own process, control by `check_program`.
"""

import asyncio
import time
from dataclasses import dataclass, replace

import orjson

from choir_common.clock import SystemClock
from choir_common.errors import ChoirError, RateLimited
from choir_common.i18n import Message, _, join
from choir_common.ids import new_id
from choir_common.wire.config import ModelConfig
from choir_common.wire.model_check import CheckOutcome, ModelCheckRequest, ModelCheckResult
from choir_common.wire.money import MAX_MODEL_NAME, UsageReport
from choir_models.call_meter import CallMeter, usage_details
from choir_models.completion_limits import request_limit, with_limit
from choir_models.context_windows import MIN_CONTEXT, ContextWindow
from choir_models.model import (
    NO_LISTENER,
    UNKNOWN_OUTPUT,
    Completion,
    FailureCause,
    ModelFailed,
    NoModelResponse,
    Prompt,
)
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
PROMPT_TOKENS = 200
"""Estimate, for a provider that does not count."""
STORE_KEY = "`choirctl secret set {secret}`, then `choirctl secret apply`"
FIXES: dict[FailureCause, Message] = {
    "key": _("Store a valid one: {command}."),
    "credit": _("The account has no credit."),
    "not_found": _("There is no model of that name at this address, or it cannot use tools."),
    "request": _("The model may not support tools."),
}
GET_A_MODEL = _(
    "set OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start Ollama, "
    "LM Studio, llama.cpp or vLLM with a model that can call tools."
)
REHEARSAL = _("the rehearsal model answers (scripted): {advice}").format(advice=GET_A_MODEL)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a check says, without the call that it made."""

    outcome: CheckOutcome
    detail: str


class _CheckCall:
    """The one request of a check, its time and what it cost."""

    def __init__(self, request: ModelCheckRequest) -> None:
        self._request = request
        self._meter = CallMeter(NO_LISTENER, SystemClock())
        self._began_s: float | None = None
        self._limit = request_limit(request.model)
        self.completion: Completion | None = None
        self.spent: Completion | None = None
        """What the provider bills; None if nothing."""

    async def make(self, registry: ModelRegistry, window: ContextWindow) -> None:
        """Send the request; raises the errors of `ModelRegistry.think`, and TimeoutError."""
        request, prompt = self._request, PROMPT
        changes = {"context_window": window.tokens, "timeout_ms": TIMEOUT_MS}
        settings = request.model.model_copy(update=changes)
        if request.longest_output is not None:
            settings = with_limit(settings, request.longest_output)
            prompt = replace(prompt, is_limited=True)
        self._limit = request_limit(settings)
        self._began_s = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                self.completion = await registry.think(settings, request.key, prompt)
            self.spent = self.completion
        except TimeoutError:
            self.spent = UNKNOWN_OUTPUT
            raise
        except ChoirError as error:
            self.spent = self._meter.spent_by(error)
            raise

    def result(self, verdict: _Verdict) -> ModelCheckResult:
        """Return the verdict with what the call has shown."""
        duration_ms = None if self._began_s is None else (time.monotonic() - self._began_s) * 1000
        completion = self.completion
        return ModelCheckResult(
            outcome=verdict.outcome,
            detail=verdict.detail,
            answered=completion is not None,
            duration_ms=completion.duration_ms if completion is not None else duration_ms,
            model=completion.model[:MAX_MODEL_NAME] if completion is not None else "",
            usage=self._usage(),
        )

    def _usage(self) -> UsageReport | None:
        if self.spent is None:
            return None
        request = self._request
        spent = self._meter.fill_in(self.spent, prompt_tokens=PROMPT_TOKENS, limit=self._limit)
        return UsageReport(
            report_id=new_id("use"),
            kind="chat",
            name=request.name,
            model=(spent.model or request.model.model)[:MAX_MODEL_NAME],
            at=SystemClock().now(),
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            cached_tokens=spent.cached_tokens,
            usage=usage_details(spent, request.name, request.reservation),
        )


async def check_model(model: ModelConfig, key: str | None) -> ModelCheckResult:
    """Send one request to the provider; any response or transport error becomes a result."""
    return await run_check(ModelCheckRequest(name="", model=model, key=key))


async def run_check(request: ModelCheckRequest) -> ModelCheckResult:
    """Send one request to the provider, with a limit of its output; see `check_model`."""
    model, key, call = request.model, request.key, _CheckCall(request)
    label = _("{model} at {endpoint}").format(model=model.model, endpoint=model.endpoint)
    if model.provider_properties.is_rehearsal:
        return call.result(_Verdict("warn", REHEARSAL))
    if model.secret and not key:
        detail = _("{label}: its key is not set. Store it: {command}.").format(
            label=label, command=STORE_KEY.format(secret=model.secret)
        )
        return call.result(_Verdict("fail", detail))
    registry = ModelRegistry()
    try:
        window = await registry.windows.find(model, key)
        await call.make(registry, window)
    except (TimeoutError, ChoirError) as error:
        return call.result(_Verdict("fail", _explain(error, model, label)))
    finally:
        await registry.close()
    return call.result(_check_context(model, window, label))


def _explain(error: TimeoutError | ChoirError, model: ModelConfig, label: str) -> str:
    """Return what a failed call means, and how to fix it."""
    match error:
        case RateLimited():
            return _("{label}: {error}, or the account has no credit.").format(
                label=label, error=error.message
            )
        case NoModelResponse():
            return _("{label} does not answer: {error}.").format(label=label, error=error.message)
        case ModelFailed():
            words: list[str] = [join("", (label, ": ", error.message, "."))]
            if error.cause in FIXES:
                command = STORE_KEY.format(secret=model.secret or "NAME")
                words.append(FIXES[error.cause].format(command=command))
            return join(" ", words)
        case ChoirError():
            return join(": ", (label, error.message))
        case _:
            return _("{label}: its answer was not complete after {limit_s:g} s.").format(
                label=label, limit_s=TIMEOUT_MS / 1000
            )


def _check_context(model: ModelConfig, window: ContextWindow, label: str) -> _Verdict:
    """Return whether the context window is long enough, and otherwise the command that lengthens it."""
    size = _("{count:,} tokens").format(count=window.tokens)
    is_own = model.provider_properties.is_own_server or model.api == "ollama"
    if is_own and (window.server is None or not window.is_known):
        return _Verdict(
            "warn",
            _(
                "{label} responds, but does not report its context length: {size} are assumed. {advice}"
            ).format(label=label, size=size, advice=_unknown_advice(model)),
        )
    if window.server is None or window.tokens >= ADVISED_CONTEXT:
        responds = _("{label} responds and supports tools; context {size}").format(
            label=label, size=size
        )
        if window.sees is not None:
            responds += _(", reads pictures") if window.sees else _(", no pictures")
        return _Verdict("ok", responds)
    command = longer_context_command(window.server, model.model, ADVISED_CONTEXT)
    return _Verdict(
        "fail" if window.tokens < MIN_CONTEXT else "warn",
        _(
            "{label} responds, but its context has only {size}{consequence} For more: `{command}`."
        ).format(label=label, size=size, consequence=_consequence(window.tokens), command=command),
    )


def _consequence(tokens: int) -> str:
    if tokens < MIN_CONTEXT:
        return _(", and agents need {count:,}.").format(count=MIN_CONTEXT)
    probe = ModelConfig(model="m", context_window=tokens)
    if probe.has_small_context:
        return _(": agents get short instructions and fewer tools.")
    return "."


def _unknown_advice(model: ModelConfig) -> str:
    if model.provider == "ollama" and model.api == "openai":
        return _(
            "Ollama cuts longer prompts silently over this API: set the model's `api` to `ollama` and "
            "remove `/v1` from its endpoint."
        )
    return _("Set the model's `context_window` in config.json.")
