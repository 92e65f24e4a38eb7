"""Cache of the history format that each model accepts.

Used by `think`. Not stored: after a restart a refusal costs one more request.
"""

from choir_agent.models.choice import origin_of
from choir_agent.prompt.history import HistoryFormat
from choir_common.wire.config import ModelConfig


class Histories:
    """History format by model, as learned from refused requests."""

    def __init__(self) -> None:
        self._formats: dict[str, HistoryFormat] = {}

    def of(self, model: ModelConfig) -> HistoryFormat:
        """Return the format for a model: with provider fields unless the model has refused them."""
        origin = origin_of(model)
        return self._formats.get(origin) or HistoryFormat(origin)

    def learn(self, history: HistoryFormat) -> None:
        """Use this format from now on: the model accepted it."""
        self._formats[history.origin] = history
