"""Remember which child processes are the agent's own, so that nobody takes them for a command's leavings.

Kept by `ssh_agent`; read by the tools' sweep for strays.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class OwnChildren:
    """Children that outlive the call in which they were started."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        self._starting = 0

    @property
    def starting(self) -> bool:
        """Tell whether one is just being started, so that its pid is not known yet."""
        return self._starting > 0

    @contextmanager
    def start(self) -> Iterator[None]:
        """Note that one is being started while the block runs."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
