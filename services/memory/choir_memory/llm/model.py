"""The service's own optional language model (`memory.model`), with any API that agents can use.

Used for summaries and extraction, never in the reply path.
"""

import asyncio
from typing import Protocol

import orjson
import structlog

from choir_common.errors import ChoirError, DeadlineExceeded, RateLimited, Unavailable
from choir_common.wire.config import ModelConfig
from choir_memory.usage.reporter import UsageReporter
from choir_models.model import Completion, FailureCause, ModelFailed, Prompt
from choir_models.registry import ModelRegistry

log = structlog.get_logger("choir.memory.errands")

MAX_COMPLETION_CHARS = 60_000
"""Maximum characters; a longer summary or list of facts is unusable."""
FAILURES: dict[FailureCause, str] = {
    "connection": "The model's provider cannot be reached.",
    "credit": "The account at the model's provider has no credit left.",
    "filter": "The model's provider refused the content.",
    "format": "The model's response cannot be parsed.",
    "key": "The model's provider rejects the key; check the secret of the model named in `memory.model`.",
    "not_found": "The model's provider does not know the model; check the model named in `memory.model`.",
    "too_long": "The request is too long for the model.",
}
"""Messages about failures. They do not quote the provider, which may quote the request."""


class LanguageModel(Protocol):
    """A language model that answers a text with a text."""

    @property
    def name(self) -> str: ...

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises a ChoirError when the model is not available.

        `material` is quoted data that the model must not treat as instructions.
        """
        ...

    async def close(self) -> None: ...


class ProviderLanguageModel:
    """One model with one request at a time, so that it does not compete with the agents."""

    def __init__(self, settings: ModelConfig, key: str | None, usage: UsageReporter) -> None:
        self._usage = usage
        self.name = settings.model
        self._settings = settings
        self._key = key
        self._models = ModelRegistry()
        self._request_lock = asyncio.Lock()

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises Unavailable, RateLimited or DeadlineExceeded."""
        texts = (("system", instructions), ("user", material))
        messages = tuple(orjson.dumps({"role": role, "content": text}) for role, text in texts)
        async with self._request_lock:
            completion = await self._think(Prompt(messages))
        self._usage.add_completion(completion)
        text = completion.text.strip()
        if not text or len(text) > MAX_COMPLETION_CHARS or completion.finish_reason == "length":
            raise Unavailable(
                f"The model {self.name} returned an empty, incomplete or oversized completion."
            )
        return text

    async def close(self) -> None:
        """Close the connections."""
        await self._models.close()

    async def _think(self, prompt: Prompt) -> Completion:
        try:
            return await self._models.think(self._settings, self._key, prompt)
        except RateLimited as error:
            message = "The model's provider rate limit is exceeded."
            raise RateLimited(message, retry_after_s=error.retry_after_s) from error
        except ModelFailed as error:
            raise _as_choir(error) from error


class ConfiguredLanguageModel:
    """The language model of the current configuration.

    Keys are never sent over the bus: a model with another secret than at startup is used only after a
    restart of the service.
    """

    def __init__(self, key: str | None, secret_name: str | None, usage: UsageReporter) -> None:
        """`secret_name` names the secret that `key` is the value of."""
        self._usage = usage
        self._key = key
        self._secret_name = secret_name
        self._settings: ModelConfig | None = None
        self.model: LanguageModel | None = None
        """None: no model is configured."""

    async def configure(self, settings: ModelConfig | None) -> None:
        """Switch to this model if this process has its key, otherwise keep the current one."""
        if settings == self._settings:
            return
        if settings is not None and settings.secret not in (None, self._secret_name):
            log.warning(
                "the model needs another secret; it is used after a restart", model=settings.model
            )
            return
        await self.close()
        self._settings = settings
        if settings is not None:
            self.model = ProviderLanguageModel(
                settings, self._key if settings.secret else None, self._usage
            )
        log.info("language model configured", model=settings.model if settings else None)

    async def close(self) -> None:
        """Close the model."""
        if self.model is not None:
            await self.model.close()
        self.model = None


def _as_choir(error: ModelFailed) -> ChoirError:
    if error.cause == "timeout":
        return DeadlineExceeded("The model did not answer in time.")
    return Unavailable(FAILURES.get(error.cause, "The model's provider failed."))
