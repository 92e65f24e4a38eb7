"""When a failed model call is repeated: the one policy of all lanes.

A failure that may pass (no connection, 408, 409, 429, 5xx, 529) is repeated with growing pauses. The edge
lane gives up after a few, because a user waits. A core job goes on until its time limit, also after timeouts.
`choir_models.fallback` says which model gets a call.
"""

import math

from choir_common.backoff import Backoff
from choir_common.lanes import is_edge
from choir_common.wire.config import AgentSettings
from choir_models.model import ModelFailed, NoModelResponse

RETRIES = 4
"""Retries of the edge lane. With a first pause of 1 s the last one is made after about 15 s."""
MAX_WAIT_S = 120.0
"""Sum of the edge lane's pauses for one call, which a provider's `Retry-After` may lengthen."""
QUICK_RETRY_WAIT_S = 3.0
"""Longest pause before the one retry of a model that has a fallback."""
MAX_PAUSE_S = 60.0
MAX_JOB_PAUSE_S = 900.0
"""Longest pause of a core job that a provider asked for; afterwards it tries again."""


def is_passing(error: ModelFailed) -> bool:
    """Return whether the same call may succeed soon."""
    return isinstance(error, NoModelResponse) or error.cause == "rate"


class RetrySchedule:
    """The pauses between the attempts of one model call."""

    def __init__(self, settings: AgentSettings, lane: str) -> None:
        """Start a schedule; the first pause is `rate_limit_retry_ms`, and each one doubles the last."""
        first_s = settings.rate_limit_retry_ms / 1000
        self._is_patient = not is_edge(lane)
        self._retries_left = math.inf if self._is_patient else RETRIES
        if not settings.features.model_retries:
            self._retries_left = 0
        self._backoff = Backoff(first_s, max_s=max(first_s, MAX_PAUSE_S))
        self.pauses = 0
        self.waited_s = 0.0
        """Sum of the pauses so far."""

    @property
    def is_outage(self) -> bool:
        """Whether the failure lasts longer than the edge lane would wait."""
        return self.pauses > RETRIES

    def next_pause_s(self, error: ModelFailed) -> float | None:
        """Return the seconds to wait before the next attempt, or None if this failure is final."""
        repeats = is_passing(error) or (self._is_patient and error.cause == "timeout")
        if not repeats or self._retries_left < 1:
            return None
        pause_s = max(self._backoff.pause_s(), error.retry_after_s or 0.0)
        if self._is_patient:
            pause_s = min(pause_s, MAX_JOB_PAUSE_S)
        elif self.waited_s + pause_s > MAX_WAIT_S:
            return None
        self._retries_left -= 1
        self.pauses += 1
        self.waited_s += pause_s
        return pause_s
