"""Model wrapper that retries calls without a response.

Refused and reset connections and the statuses 502, 503 and 529 usually end within seconds. A call that timed
out or got a response is not repeated, because it may have been billed. Rate limits are handled in
`ModelCaller`, which notifies the user.
"""

import asyncio
import math

import structlog

from choir_agent.models.model import ChatModel, Completion, NoModelResponse
from choir_agent.prompt.prompt_assembler import Prompt
from choir_agent.settings import SettingsSource
from choir_common.backoff import Backoff
from choir_common.wire.config import ModelConfig

log = structlog.get_logger("choir.agent.model")

RETRIES = 4
"""Number of retries. With a first pause of 1 s the last one is made after about 15 s."""
LONGEST_PAUSE_S = 30.0


class RetryingModel:
    """A model that retries calls without a response, with growing pauses."""

    def __init__(self, model: ChatModel, settings: SettingsSource) -> None:
        """Wrap a model; the first pause is `rate_limit_retry_ms`, and each pause doubles the one before."""
        self._model = model
        self._settings = settings

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Completion:
        """Return the model's output.

        Raises NoModelResponse if the last retry got no response either, and all other errors of the model at
        once.
        """
        now = self._settings.current().settings
        backoff = Backoff(now.rate_limit_retry_ms / 1000, max_s=math.inf)
        retries = RETRIES if now.features.model_retries else 0
        for retry in range(1, retries + 1):
            try:
                return await self._model.think(settings, api_key, prompt)
            except NoModelResponse as error:
                wait_s = max(backoff.pause_s(), error.retry_after_s or 0.0)
                if wait_s > LONGEST_PAUSE_S:
                    raise
                log.info("model call got no response; retrying", model=settings.model,
                         retry=retry, wait_s=round(wait_s, 3), reason=error.message)  # fmt: skip
            await asyncio.sleep(wait_s)
        return await self._model.think(settings, api_key, prompt)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
