"""Registry of the agent's own child processes, so that they are not killed as orphans of a command."""

from collections.abc import Iterator
from contextlib import contextmanager


class OwnChildProcesses:
    """Child processes that outlive the call in which they were started."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        self._starting = 0

    @property
    def starting(self) -> bool:
        """Whether a child is being started and its pid is not known yet."""
        return self._starting > 0

    @contextmanager
    def start(self) -> Iterator[None]:
        """Mark a child as being started for the duration of the context."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
