"""User messages for model failures, and the tracker of failing models.

A message says which model failed, and how to fix it. A model is failing if its newest call failed; this is in
memory only, because it is for display and the next call updates it.
"""

from typing import Literal, assert_never

from choir_common.clock import Clock
from choir_common.redactor import Redactor
from choir_common.wire.config import ModelConfig
from choir_common.wire.rpc import ModelFailure
from choir_models.fallback import ABOUT_THE_PROMPT
from choir_models.model import ModelFailed


def failure_reply(error: ModelFailed, name: str, model: ModelConfig) -> str:
    """Return the message to the user for a failure of the model that config.json calls `name`."""
    return f"I could not get an answer from the model {describe_failure(error, name, model)}"


def describe_failure(error: ModelFailed, name: str, model: ModelConfig) -> str:
    """Return which model failed, why, and how to fix it."""
    what = error.message.rstrip(". ")
    return f"{model.model} at {model.endpoint}: {what}. {_advice(error, name, model)}"


def _advice(error: ModelFailed, name: str, model: ModelConfig) -> str:
    match error.cause:
        case "provider":
            return "The provider has a problem; please try again in a few minutes."
        case "connection":
            return (
                "Check that this address is up and can be reached from here, then try again; "
                f"{_correct(name, 'endpoint', 'URL')} changes it."
            )
        case "timeout":
            return (
                "Please try again; for a model that thinks for long, raise the limit with "
                f"{_correct(name, 'timeout_ms', '300000')}."
            )
        case "key" if model.secret is None:
            return f"No key is configured for it: name its secret with {_correct(name, 'secret', 'NAME')}."
        case "key":
            return (
                f"Store a valid key with `choirctl secret set {model.secret}`, then run "
                "`choirctl secret apply`."
            )
        case "credit":
            return (
                "Add credit there, or use another model: `choirctl model list` names them, "
                "`choirctl model set` selects one."
            )
        case "not_found" | "endpoint" | "refused":
            return _advice_on_address(error.cause, name, model)
        case "filter":
            return "Please rephrase your message."
        case "too_long":
            return "Send less at once, or use a model with a longer context."
        case "rate":
            return "Please try again later."
        case "request":
            return (
                f"Check the settings of `models.{name}` against what the provider supports; "
                "`choirctl config show` prints them."
            )
        case "format":
            return (
                f"Check that the endpoint of `models.{name}` has the API `{model.api}`"
                f"{_endpoint_hint(model)}."
            )
        case _:
            assert_never(error.cause)


def _advice_on_address(
    cause: Literal["not_found", "endpoint", "refused"], name: str, model: ModelConfig
) -> str:
    match cause:
        case "not_found":
            return (
                f"Correct the model's name with {_correct(name, 'model', 'NAME')}, or its `endpoint`"
                f"{_endpoint_hint(model)}."
            )
        case "endpoint":
            return (
                "Its `endpoint` is probably not the address of an API: "
                f"{_correct(name, 'endpoint', 'URL')} changes it{_endpoint_hint(model)}."
            )
        case "refused":
            return (
                f"Check what the provider says, and the `endpoint` and `model` of `models.{name}`: "
                "`choirctl config show` prints them. `choirctl model list` names other models, "
                "`choirctl model set` selects one."
            )


def _correct(name: str, field: str, value: str) -> str:
    """Return the commands that change a setting of a model."""
    return (
        f"`choirctl config set models.{name}.{field} {value}`, then `choirctl config load` and "
        "`choirctl config apply`"
    )


def _endpoint_hint(model: ModelConfig) -> str:
    return "; it usually ends with `/v1`" if model.api.startswith("openai") else ""


class OutageTracker:
    """The current failure of each failing model."""

    def __init__(self, clock: Clock, redactor: Redactor) -> None:
        self._clock = clock
        self._redactor = redactor
        self._failures: dict[str, ModelFailure] = {}

    def record_failure(self, error: ModelFailed, name: str, model: ModelConfig) -> None:
        """Record a failed call of the model that config.json calls `name`."""
        if error.cause in ABOUT_THE_PROMPT:
            return
        earlier = self._failures.get(name)
        self._failures[name] = ModelFailure(
            model=model.model,
            since=earlier.since if earlier and earlier.model == model.model else self._clock.now(),
            words=self._redactor.redact(describe_failure(error, name, model)),
        )

    def record_success(self, name: str) -> None:
        """Record a successful call of a model."""
        self._failures.pop(name, None)

    def of(self, name: str) -> ModelFailure | None:
        """Return the current failure of a model, or None."""
        return self._failures.get(name)
