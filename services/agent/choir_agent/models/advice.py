"""User messages for model failures: which model failed, and how to fix it. Pure. Called by the lanes."""

from typing import assert_never

from choir_agent.models.model import ModelFailed
from choir_common.wire.config import ModelConfig


def explain(error: ModelFailed, name: str, model: ModelConfig) -> str:
    """Return the message to the user for a failure of the model that config.json calls `name`."""
    return f"I could not get an answer from the model {describe(error, name, model)}"


def describe(error: ModelFailed, name: str, model: ModelConfig) -> str:
    """Return which model failed, why, and how to fix it."""
    what = error.message.rstrip(". ")
    return f"{model.model} at {model.endpoint}: {what}. {_advice(error, name, model)}"


def _advice(error: ModelFailed, name: str, model: ModelConfig) -> str:
    match error.cause:
        case "provider":
            return "The fault is the provider's; please try again in a few minutes."
        case "connection":
            return "Check that this address is up and can be reached from here, then try again."
        case "timeout":
            return f"Please try again; for a slow model, raise `models.{name}.timeout_ms`."
        case "key" if model.secret is None:
            return f"No key is configured for it: name a secret as `models.{name}.secret` in config.json."
        case "key":
            return (
                f"Store a valid key with `choirctl secret set {model.secret}`, then run "
                "`choirctl secret apply`."
            )
        case "credit":
            return "Add credit there, or use another model: `choirctl model list` names them."
        case "not_found":
            return (
                f"Check the name and the endpoint of `models.{name}` in config.json; an endpoint "
                "usually ends with `/v1`."
            )
        case "filter":
            return "Please put it differently."
        case "too_long":
            return "Send less at once, or use a model with a longer context."
        case "rate":
            return "Please try again later."
        case "request":
            return f"Check the settings of `models.{name}` against what the provider supports."
        case "format":
            return (
                f"Check that the endpoint of `models.{name}` is an OpenAI-compatible API; it usually "
                "ends with `/v1`."
            )
        case _:
            assert_never(error.cause)
