"""Entry point of the embedded stack in the foreground: `python -m choir_local`.

Started by `choirctl up --detach` and by tests that kill the supervisor. Ctrl-C or SIGTERM stops everything.
"""

import asyncio
import sys

from choir_common.errors import StartupError
from choir_local.settings import LocalSettings
from choir_local.stack import Stack, run_until_signal
from choir_local.stack_state import StackState


class _Progress:
    """Printer of a line for every change of a child's phase."""

    def __init__(self) -> None:
        self._phases: dict[str, tuple[str, int]] = {}

    def show(self, state: StackState) -> None:
        for name, child in state.children.items():
            now = (child.phase, child.restarts)
            if self._phases.get(name) != now and child.phase != "waiting":
                self._phases[name] = now
                note = f": {child.note}" if child.note else ""
                sys.stderr.write(f"{name} {child.phase}{note}\n")
        if self._phases.get("") != (state.phase, 0):
            self._phases[""] = (state.phase, 0)
            sys.stderr.write(f"stack {state.phase}; model: {state.model}\n")


async def _run() -> None:
    await run_until_signal(Stack(LocalSettings.load(), _Progress()))


def main() -> int:
    """Run until a signal arrives; return the exit code."""
    try:
        asyncio.run(_run())
    except StartupError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
