"""Decide when a model that failed to sum events up is asked again: pure. Used by `compact`.

Each failed try is billed. After a few in a row a model is left alone for a growing number of compactions,
which select lines instead.
"""

from dataclasses import dataclass

TRIES = 3
"""Failures in a row after which events are folded without the model."""
LONGEST_REST = 32


@dataclass(slots=True)
class ModelBackoff:
    """What one model's compactions came to."""

    failures: int = 0
    """In a row."""
    rest: int = 0
    """Compactions still to be made without it."""

    @property
    def gave_up(self) -> bool:
        """Whether the failure just noted was one too many, so that lines are selected."""
        return self.failures >= TRIES

    def growth_factor(self) -> int:
        """Return how many times the usual growth a window waits for after a failure."""
        return int(2 ** max(0, self.failures - 1))

    def succeeded(self) -> None:
        """Note that the model folded something."""
        self.failures = self.rest = 0

    def failed(self) -> None:
        """Note that it could not."""
        self.failures += 1
        if self.gave_up:
            self.rest = min(2 ** (self.failures - TRIES + 1), LONGEST_REST)

    def take_rest(self) -> bool:
        """Tell whether this compaction is to be made without the model, and count it."""
        if not self.rest:
            return False
        self.rest -= 1
        return True
