"""The service's own optional language model (`memory.model`), with any API that agents can use.

Used for summaries and extraction, never in the reply path.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import orjson
import structlog

from choir_common.errors import ChoirError, DeadlineExceeded, RateLimited, Unavailable
from choir_common.wire.config import MemoryServiceConfig, ModelConfig
from choir_memory.usage.budget import ModelBudget, ReservedCall
from choir_memory.usage.reporter import UsageReporter
from choir_models.fallback import CoolDowns, NamedModel, call_first
from choir_models.model import UNKNOWN_OUTPUT, Completion, FailureCause, ModelFailed, Prompt
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
    """A model and its fallbacks, with one request at a time, so that it does not compete with the agents."""

    def __init__(
        self,
        models: Sequence[NamedModel],
        *,
        keys: Mapping[str, str],
        usage: UsageReporter,
        budget: ModelBudget,
        cool_downs: CoolDowns,
    ) -> None:
        """`keys` has the API keys by the names of their secrets."""
        self._usage = usage
        self._budget = budget
        self._chain = models
        self.name = models[0].config.model
        self._keys = keys
        self._cool_downs = cool_downs
        self._models = ModelRegistry()
        self._request_lock = asyncio.Lock()

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises Unavailable, RateLimited or DeadlineExceeded.

        A budget in money that does not allow the call is Unavailable, too.
        """
        texts = (("system", instructions), ("user", material))
        messages = tuple(orjson.dumps({"role": role, "content": text}) for role, text in texts)
        async with self._request_lock:
            completion = await self._think(Prompt(messages))
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
            return await call_first(self._chain, self._cool_downs, partial(self._ask, prompt))
        except ModelFailed as error:
            raise _as_choir(error) from error

    async def _ask(self, prompt: Prompt, model: NamedModel) -> Completion:
        key = self._keys.get(model.config.secret or "")
        async with self._budget.reserve(model, prompt) as call:
            try:
                completion = await self._models.think(call.settings, key, call.prompt)
            except ChoirError as error:
                spent = call.meter.spent_by(error)
                if spent is not None:
                    self._report(model, call, spent)
                raise
            except asyncio.CancelledError:
                # A search does not wait long. The provider had the request, and may bill it.
                self._report(model, call, UNKNOWN_OUTPUT)
                raise
        self._report(model, call, completion)
        return completion

    def _report(self, model: NamedModel, call: ReservedCall, completion: Completion) -> None:
        self._usage.add_completion(call.settle(completion), model.name, call.reservation)


class ConfiguredLanguageModel:
    """The language model of the current configuration.

    Keys are never sent over the bus: a model with another secret than at startup is used only after a
    restart of the service.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        usage: UsageReporter,
        budget: ModelBudget,
        cool_downs: CoolDowns,
    ) -> None:
        """`keys` has the API keys of the models at startup, by the names of their secrets."""
        self._usage = usage
        self._budget = budget
        self._keys = keys
        self._cool_downs = cool_downs
        self._chain: Sequence[NamedModel] = ()
        self.model: LanguageModel | None = None
        """None: no model is configured."""

    async def configure(self, config: MemoryServiceConfig) -> None:
        """Switch to the configured model if this process has its key, otherwise keep the current one.

        A fallback without its key is left out.
        """
        chain = [model for model in _chain(config) if self._has_key(model.config)]
        if config.model is not None and not self._has_key(config.model):
            log.warning(
                "the model needs another secret; it is used after a restart",
                model=config.model.model,
            )
            return
        if chain == self._chain:
            return
        await self.close()
        self._chain = chain
        if chain:
            self.model = ProviderLanguageModel(
                chain,
                keys=self._keys,
                usage=self._usage,
                budget=self._budget,
                cool_downs=self._cool_downs,
            )
        names = [model.config.model for model in chain]
        log.info("language model configured", model=names[0] if names else None, fallback=names[1:])

    async def close(self) -> None:
        """Close the model."""
        if self.model is not None:
            await self.model.close()
        self.model = None

    def _has_key(self, model: ModelConfig) -> bool:
        return model.secret is None or model.secret in self._keys


def _chain(config: MemoryServiceConfig) -> list[NamedModel]:
    """Return the configured model and its fallbacks; the name of the first is not known here."""
    if config.model is None:
        return []
    others = config.fallback_models
    names = [name for name in config.model.fallback if name in others]
    return [NamedModel("", config.model), *(NamedModel(name, others[name]) for name in names)]


def _as_choir(error: ModelFailed) -> ChoirError:
    if error.cause == "rate":
        message = "The model's provider rate limit is exceeded."
        return RateLimited(message, retry_after_s=error.retry_after_s)
    if error.cause == "timeout":
        return DeadlineExceeded("The model did not answer in time.")
    return Unavailable(FAILURES.get(error.cause, "The model's provider failed."))
