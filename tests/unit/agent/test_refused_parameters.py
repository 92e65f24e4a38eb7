"""Errors that refuse an optional parameter are told from other refusals of a request."""

import pytest

from choir_common.wire.config import ModelConfig
from choir_models.refused_parameters import refused_parameter, settings_without


@pytest.mark.parametrize(
    ("refusal", "name"),
    [
        ("Unsupported value: 'temperature' does not support 0.7 with this model.", "temperature"),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_tokens",
        ),
        ("Unsupported parameter: 'reasoning.effort' is not supported", "reasoning_effort"),
        ("`temperature` is deprecated for this model.", "temperature"),
        ('Unknown name "parallel_tool_calls": Cannot find field.', "parallel_tool_calls"),
        ("deepseek-reasoner does not support this tool_choice", "tool_choice"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", None),
        ("Invalid schema for function 'set_temperature': unknown type", None),
        ("An assistant message with 'tool_calls' must be followed by tool messages", None),
        ("Unrecognized request argument supplied: thikning", None),
    ],
)
def test_the_refused_parameter_is_named(refusal: str, name: str | None) -> None:
    assert refused_parameter(refusal) == name


def test_settings_lose_a_refused_parameter_wherever_it_is_configured() -> None:
    model = ModelConfig.model_validate(
        {
            "model": "m",
            "temperature": 0.5,
            "reasoning_effort": "low",
            "max_completion_tokens": 100,
            "request": {"top_p": 0.9, "extra_body": {"tool_choice": "auto", "seed": 7}},
        }
    )
    names = frozenset({"temperature", "reasoning_effort", "top_p", "tool_choice"})
    reduced = settings_without(model, names)
    assert (reduced.temperature, reduced.reasoning_effort) == (None, None)
    assert reduced.request.body_fields() == {"seed": 7}
    assert reduced.max_completion_tokens == 100
    assert settings_without(model, frozenset({"x"})) == model
