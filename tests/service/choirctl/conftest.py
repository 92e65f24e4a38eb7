"""One stack as `choirctl init` makes it, for the files that need no other: a start takes five seconds."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.stack import EmbeddedStack, running_stack


class SharedStack:
    """A stack that is started when the first file needs it."""

    def __init__(self) -> None:
        self._exits = contextlib.ExitStack()
        self._stack: EmbeddedStack | None = None

    def get(self) -> EmbeddedStack:
        """Return the running stack."""
        if self._stack is None:
            self._stack = self._exits.enter_context(running_stack())
        return self._stack

    def close(self) -> None:
        """Stop it; the next file that needs one gets another."""
        self._stack = None
        self._exits.close()


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[SharedStack]:
    """The stack of the files that tests/support/scheduling.py gives to one worker."""
    shared = SharedStack()
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def stack(shared_stack: SharedStack) -> EmbeddedStack:
    """The shared stack, with what the files before left in it."""
    return shared_stack.get()
