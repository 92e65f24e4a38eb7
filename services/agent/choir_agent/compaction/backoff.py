"""Backoff for models that fail to compact. Pure. Used by `compact`.

Each failed attempt costs tokens. After a few in a row the model is skipped for a growing number of
compactions, which select lines instead.
"""

from dataclasses import dataclass

TRIES = 3
"""Consecutive failures after which events are folded without the model."""
LONGEST_REST = 32


@dataclass(slots=True)
class ModelBackoff:
    """Backoff state of one model."""

    failures: int = 0
    """Consecutive failures."""
    rest: int = 0
    """Remaining compactions to make without the model."""

    @property
    def gave_up(self) -> bool:
        """Whether the last failure reached the limit, so that lines are selected."""
        return self.failures >= TRIES

    def growth_factor(self) -> int:
        """Return the factor on the growth that a window must reach before the next attempt."""
        return int(2 ** max(0, self.failures - 1))

    def succeeded(self) -> None:
        """Record a success."""
        self.failures = self.rest = 0

    def failed(self) -> None:
        """Record a failure."""
        self.failures += 1
        if self.gave_up:
            self.rest = min(2 ** (self.failures - TRIES + 1), LONGEST_REST)

    def take_rest(self) -> bool:
        """Return whether this compaction skips the model, and count it."""
        if not self.rest:
            return False
        self.rest -= 1
        return True
