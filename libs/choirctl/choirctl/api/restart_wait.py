"""Wait for a control that the stack on this machine is starting again, so that no command fails meanwhile."""

import asyncio

from choir_common.target import Target
from choir_local.home import Home
from choir_local.stack_state import is_locked, read_state

LONGEST_S = 15.0
POLL_S = 0.1


async def wait_for_restart(place: Target) -> None:
    """Return when control is not being restarted, or after fifteen seconds."""
    if place.url is not None:
        return
    try:
        async with asyncio.timeout(LONGEST_S):
            while _restarts(Home(place.home)):  # noqa: ASYNC110 - the state is a file
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return


def _restarts(home: Home) -> bool:
    """Return whether a stack that was ready has started control again, and it is not ready yet."""
    state = read_state(home.state_file)
    if state is None or state.phase != "ready" or not is_locked(home):
        return False
    control = state.children.get("control")
    return control is not None and control.phase in ("restarting", "starting")
