"""The stack that another process runs: whether there is one, its agents, and waiting until it is ready."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from choir_common.errors import StartupError, Unavailable
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operator import AgentView
from choir_local.home import Home
from choir_local.stack_state import StackState, is_locked, read_state
from choirctl.api.control import connect

START_TIMEOUT = timedelta(minutes=3)
POLL_INTERVAL_S = 0.05


def is_running(home: Home) -> bool:
    """Return whether a stack runs in `home`, ready or not."""
    return home.lock_file.exists() and is_locked(home)


async def wait_until_ready(home: Home, on_change: Callable[[StackState], None]) -> StackState:
    """Wait until the stack that runs in `home` is ready, and return its state.

    Raises StartupError if it ends, Unavailable if it is not ready within three minutes.
    """
    try:
        async with asyncio.timeout(START_TIMEOUT.total_seconds()):
            while is_locked(home):
                state = read_state(home.state_file)
                if state is not None:
                    on_change(state)
                    if state.phase == "ready":
                        return state
                await asyncio.sleep(POLL_INTERVAL_S)
    except TimeoutError as error:
        raise Unavailable(
            _(
                "A Choir is starting in {root} and was not ready within three minutes. See "
                "{logs}; `choirctl down` stops it."
            ).format(root=home.root, logs=home.logs)
        ) from error
    raise StartupError(
        _("The Choir that was starting in {root} has ended; see {logs}.").format(
            root=home.root, logs=home.logs
        )
    )


async def agents_if_running(place: Target) -> list[AgentView] | None:
    """Return all agents, or None if no Choir runs (a stale socket counts as none).

    Raises Unavailable if one runs in this state directory and does not answer.
    """
    try:
        async with connect(place) as api:
            return await api.agents.list()
    except Unavailable:
        if is_running(Home(place.home)):
            raise
        return None
