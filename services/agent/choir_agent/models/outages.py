"""Remember which models do not answer, since when and why.

Kept by the lanes' thinkers; read for the status reports to control. In memory: it is for people, and the next
call of the model tells again.
"""

from choir_agent.models.advice import describe
from choir_agent.models.model import Cause, ModelFailed
from choir_common.clock import Clock
from choir_common.redactor import Redactor
from choir_common.wire.config import ModelConfig
from choir_common.wire.rpc import ModelFailure

ABOUT_THE_PROMPT: tuple[Cause, ...] = ("filter", "too_long")
"""Causes that say nothing about the next call: the model is there."""


class ModelOutages:
    """The failure of each model whose newest call failed."""

    def __init__(self, clock: Clock, redactor: Redactor) -> None:
        self._clock = clock
        self._redactor = redactor
        self._failures: dict[str, ModelFailure] = {}

    def record_failure(self, error: ModelFailed, name: str, model: ModelConfig) -> None:
        """Note that a call of the model that config.json calls `name` failed."""
        if error.cause in ABOUT_THE_PROMPT:
            return
        known = self._failures.get(name)
        self._failures[name] = ModelFailure(
            model=model.model,
            since=known.since if known and known.model == model.model else self._clock.now(),
            words=self._redactor.clean(describe(error, name, model)),
        )

    def record_answer(self, name: str) -> None:
        """Note that a call of a model was answered."""
        self._failures.pop(name, None)

    def of(self, name: str) -> ModelFailure | None:
        """Return the failure of a model that does not answer."""
        return self._failures.get(name)
