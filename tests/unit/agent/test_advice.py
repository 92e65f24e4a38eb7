"""An error of a model names the model, its endpoint or secret, and how to fix it."""

from datetime import UTC, datetime

import orjson
import pytest

from choir_agent.models.failure_messages import failure_reply
from choir_agent.models.lane_models import model_name_for_lane
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_models.model import ModelFailed, NoModelResponse
from choir_models.provider_errors import error_from_response

MODEL = ModelConfig(model="gpt-x", endpoint="https://api.example/v1", secret="openai-key")
AGAIN = "try again"


def said(status: int, message: str = "Oops.", model: ModelConfig = MODEL) -> str:
    body = orjson.dumps({"error": {"message": message}})
    error = error_from_response(status, body, {}, datetime.now(UTC))
    assert isinstance(error, ModelFailed)
    return failure_reply(error, "default", model)


@pytest.mark.parametrize(
    "status", [302, 400, 401, 402, 403, 404, 405, 410, 413, 451, 500, 502, 503, 529]
)
def test_every_error_names_the_model_and_its_endpoint_and_ends_its_sentences_once(
    status: int,
) -> None:
    text = said(status)
    assert "gpt-x at https://api.example/v1" in text
    assert ".." not in text


@pytest.mark.parametrize(
    ("status", "mend"),
    [
        (400, "settings of `models.default`"),
        (401, "`choirctl secret set openai-key`, then run `choirctl secret apply`"),
        (402, "Add credit"),
        (403, "`choirctl secret set openai-key`"),
        (404, "usually ends with `/v1`"),
        (413, "Send less"),
        (301, "`choirctl config set models.default.endpoint URL`"),
        (302, "usually ends with `/v1`"),
        (304, "probably not the address of an API"),
        (405, "`choirctl config set models.default.endpoint URL`"),
        (410, "`choirctl config set models.default.model NAME`"),
        (406, "Check what the provider says"),
        (418, "`endpoint` and `model` of `models.default`"),
        (422, "settings of `models.default`"),
        (451, "`choirctl model list` names other models"),
        (499, "Check what the provider says"),
    ],
)
def test_what_trying_again_cannot_mend_says_what_can(status: int, mend: str) -> None:
    assert mend in said(status)
    assert AGAIN not in said(status)


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
def test_a_fault_of_the_provider_can_be_tried_again(status: int) -> None:
    assert AGAIN in said(status)


@pytest.mark.parametrize("status", [*range(300, 400), *range(400, 500)])
def test_only_a_fault_that_may_pass_is_advised_to_be_tried_again(status: int) -> None:
    if status not in (408, 409, 429):
        assert AGAIN not in said(status)


def test_a_model_without_a_secret_is_told_where_to_name_one() -> None:
    keyless = MODEL.model_copy(update={"secret": None})
    assert "`choirctl config set models.default.secret NAME`" in said(401, model=keyless)


def test_a_model_whose_secret_has_no_value_is_told_that_no_key_was_sent() -> None:
    body = orjson.dumps({"error": {"message": "Missing bearer authentication."}})
    error = error_from_response(401, body, {}, datetime.now(UTC), api_key=None)
    assert isinstance(error, ModelFailed)
    text = failure_reply(error, "default", MODEL)
    assert "wants an API key (401), and none was sent" in text
    assert "`choirctl secret set openai-key`, then run `choirctl secret apply`" in text
    refused = error_from_response(401, body, {}, datetime.now(UTC), api_key="sk-wrong")
    assert isinstance(refused, ModelFailed)
    assert "refused the API key" in failure_reply(refused, "default", MODEL)


def test_a_model_that_cannot_be_reached_is_named_with_its_address() -> None:
    error = NoModelResponse("the connection to the provider failed", cause="connection")
    assert "Check that this address is up" in failure_reply(error, "default", MODEL)


def test_a_core_jobs_error_names_the_model_of_core_jobs() -> None:
    settings = AgentSettings(
        model_name="fast",
        model=MODEL,
        core_model_name="deep",
        core_model=MODEL,
        budgets=Budgets(),
        heartbeat_interval_ms=1000,
        rate_limit_retry_ms=1,
        event_window=50,
    )
    assert (model_name_for_lane(settings, "edge"), model_name_for_lane(settings, "core:x")) == (
        "fast",
        "deep",
    )
    without = settings.model_copy(update={"core_model": None, "core_model_name": None})
    assert model_name_for_lane(without, "core:x") == "fast"
