"""A model call that got no answer is tried again; one that was answered is not."""

import socket
import time

import pytest

from choir_agent.models.model_wrappers import RETRIES, RetryingModel
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.config_parts import FeatureFlags
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ModelFailed,
    NoModelResponse,
    OutputListener,
    Prompt,
)
from choir_models.openai.sdk_client import OpenAiClient
from tests.support.agent_fakes import FixedSettings
from tests.support.ports import free_port

CONFIG = ModelConfig(model="m", endpoint="http://127.0.0.1:1/v1")
PROMPT = Prompt((b'{"role":"user","content":"hi"}',))
THOUGHT = Completion("fine", (), "m", "stop", 1, 1, 1.0)


class FailingModel:
    """Fails a number of times, then answers."""

    def __init__(self, *failures: ModelFailed) -> None:
        self.failures = [*failures]
        self.asked = 0

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return THOUGHT

    async def close(self) -> None:
        pass


def retrying(model: FailingModel, features: FeatureFlags = FeatureFlags()) -> RetryingModel:  # noqa: B008 - frozen
    settings = AgentSettings(
        model_name="m",
        model=CONFIG,
        budgets=Budgets(),
        heartbeat_interval_ms=1000,
        rate_limit_retry_ms=1,
        event_window=50,
        features=features,
    )
    return RetryingModel(model, FixedSettings(settings))


async def test_a_call_without_an_answer_is_tried_again_until_there_is_one() -> None:
    model = FailingModel(*[NoModelResponse("503")] * RETRIES)
    assert await retrying(model).think(CONFIG, None, PROMPT) is THOUGHT
    assert model.asked == RETRIES + 1


async def test_after_the_last_try_the_failure_is_the_callers() -> None:
    model = FailingModel(*[NoModelResponse("503")] * (RETRIES + 1))
    with pytest.raises(NoModelResponse):
        await retrying(model).think(CONFIG, None, PROMPT)
    assert model.asked == RETRIES + 1


async def test_a_failure_that_was_answered_is_not_repeated() -> None:
    model = FailingModel(ModelFailed("500"))
    with pytest.raises(ModelFailed):
        await retrying(model).think(CONFIG, None, PROMPT)
    assert model.asked == 1


async def test_a_pause_the_provider_asks_for_is_kept_and_a_long_one_is_not_waited_for() -> None:
    model = FailingModel(NoModelResponse("503", retry_after_s=0.2))
    began = time.monotonic()
    await retrying(model).think(CONFIG, None, PROMPT)
    assert time.monotonic() - began >= 0.2
    model = FailingModel(NoModelResponse("503", retry_after_s=3600.0))
    with pytest.raises(NoModelResponse):
        await retrying(model).think(CONFIG, None, PROMPT)


async def test_a_refused_connection_is_no_answer_and_a_silent_provider_is_a_timeout() -> None:
    client = OpenAiClient(f"http://127.0.0.1:{free_port()}/v1", None)
    with pytest.raises(NoModelResponse):
        await client.complete(b"{}", 5.0)
    await client.close()
    # connections wait in the backlog, and nobody takes them
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = OpenAiClient(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", None)
        with pytest.raises(ModelFailed) as failed:
            await client.complete(b"{}", 0.2)
        await client.close()
    assert not isinstance(failed.value, NoModelResponse)
    assert failed.value.cause == "timeout"


async def test_retries_can_be_switched_off() -> None:
    model = FailingModel(NoModelResponse("503"))
    with pytest.raises(NoModelResponse):
        await retrying(model, FeatureFlags(model_retries=False)).think(CONFIG, None, PROMPT)
    assert model.asked == 1
