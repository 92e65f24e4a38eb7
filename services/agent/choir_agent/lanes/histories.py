"""Remember in which format each model takes its history.

Used by `think`. Nothing of it is stored: after a restart a refusal costs one more request.
"""

from choir_agent.models.choice import origin_of
from choir_agent.prompt.history import HistoryFormat
from choir_common.wire.config import ModelConfig


class Histories:
    """The history format of each model, as its refusals have taught it."""

    def __init__(self) -> None:
        self._formats: dict[str, HistoryFormat] = {}

    def of(self, model: ModelConfig) -> HistoryFormat:
        """Return the format for a model; with all its fields unless it has refused that."""
        origin = origin_of(model)
        return self._formats.get(origin) or HistoryFormat(origin)

    def learn(self, history: HistoryFormat) -> None:
        """Use this format from now on: the model took it."""
        self._formats[history.origin] = history
