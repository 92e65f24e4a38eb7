"""Tracker of failing models, with the time and the reason of the failure.

A model is failing if its newest call failed. Updated by `lanes/think`; read for status reports to control.
In memory only: it is for display, and the next call updates it.
"""

from choir_agent.models.advice import describe
from choir_agent.models.model import Cause, ModelFailed
from choir_common.clock import Clock
from choir_common.redactor import Redactor
from choir_common.wire.config import ModelConfig
from choir_common.wire.rpc import ModelFailure

ABOUT_THE_PROMPT: tuple[Cause, ...] = ("filter", "too_long")
"""Causes that concern one prompt and do not mean that the model is unavailable."""


class ModelOutages:
    """The current failure of each failing model."""

    def __init__(self, clock: Clock, redactor: Redactor) -> None:
        self._clock = clock
        self._redactor = redactor
        self._failures: dict[str, ModelFailure] = {}

    def record_failure(self, error: ModelFailed, name: str, model: ModelConfig) -> None:
        """Record a failed call of the model that config.json calls `name`."""
        if error.cause in ABOUT_THE_PROMPT:
            return
        known = self._failures.get(name)
        self._failures[name] = ModelFailure(
            model=model.model,
            since=known.since if known and known.model == model.model else self._clock.now(),
            words=self._redactor.clean(describe(error, name, model)),
        )

    def record_answer(self, name: str) -> None:
        """Record a successful call of a model."""
        self._failures.pop(name, None)

    def of(self, name: str) -> ModelFailure | None:
        """Return the current failure of a model, or None."""
        return self._failures.get(name)
