"""Models that stand in for another one, and the cool-down of those that failed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from choir_common.backoff import Backoff
from choir_common.clock import Clock
from choir_common.errors import RateLimited
from choir_common.wire.config import ModelConfig
from choir_models.model import FailureCause, ModelFailed

log = structlog.get_logger("choir.models.fallback")

COOL_DOWN_S, MAX_COOL_DOWN_S = 30.0, 600.0
MAX_ASKED_S = 900.0
"""Longest cool-down that a provider asks for (`Retry-After`)."""
_LASTING: tuple[FailureCause, ...] = ("key", "credit", "not_found", "endpoint", "timeout")
"""Causes that need a human, or cost minutes to find out again: the longest cool-down at once."""
ABOUT_THE_PROMPT: tuple[FailureCause, ...] = ("filter", "too_long")
"""Causes that concern one prompt and do not mean that the model is unavailable."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model and its name in config.json."""

    name: str
    config: ModelConfig


def rate_failure(error: RateLimited) -> ModelFailed:
    """Return a rate limit as a failure of the model."""
    return ModelFailed(error.message, cause="rate", retry_after_s=error.retry_after_s)


@dataclass(slots=True)
class _CoolDown:
    config: ModelConfig
    backoff: Backoff
    until: float = 0.0
    """Monotonic seconds."""


class CoolDowns:
    """The models that failed, each left out for a while where there is another one.

    In memory only: after a restart each model is tried again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._models: dict[str, _CoolDown] = {}

    def order(self, models: Sequence[NamedModel]) -> tuple[NamedModel, ...]:
        """Return the models in the order to try: those that failed lately at the end."""
        now = self._clock.monotonic()
        return tuple(sorted(models, key=lambda model: max(now, self._until(model))))

    def record_failure(self, model: NamedModel, error: ModelFailed) -> None:
        """Leave a model out, for longer with each failure in a row."""
        cooling = self._models.get(model.name)
        if cooling is None or cooling.config != model.config:
            cooling = _CoolDown(model.config, Backoff(COOL_DOWN_S, MAX_COOL_DOWN_S))
            self._models[model.name] = cooling
        pause_s = MAX_COOL_DOWN_S if error.cause in _LASTING else cooling.backoff.pause_s()
        asked_s = min(error.retry_after_s or 0.0, MAX_ASKED_S)
        cooling.until = self._clock.monotonic() + max(pause_s, asked_s)

    def record_success(self, model: NamedModel) -> None:
        """Use a model again at once."""
        self._models.pop(model.name, None)

    def _until(self, model: NamedModel) -> float:
        cooling = self._models.get(model.name)
        # A changed configuration may have repaired the model.
        return cooling.until if cooling and cooling.config == model.config else 0.0


async def call_first(
    models: Sequence[NamedModel],
    cool_downs: CoolDowns,
    call: Callable[[NamedModel], Awaitable[Answer]],
) -> Answer:
    """Return the answer of the first model that gives one, for work that no user waits for.

    Raises the failure of the first model of the chain if all fail, and at once if it concerns the prompt.
    """
    first = models[0]
    failures: dict[str, ModelFailed] = {}
    for model in cool_downs.order(models):
        try:
            answer = await call(model)
        except (RateLimited, ModelFailed) as error:
            failure = rate_failure(error) if isinstance(error, RateLimited) else error
            failures[model.name] = failure
            if failure.cause not in ABOUT_THE_PROMPT:
                cool_downs.record_failure(model, failure)
            elif model == first:
                raise
            log.info("model failed", model=model.config.model, error=failure.message)
            continue
        cool_downs.record_success(model)
        return answer
    raise failures[first.name]
