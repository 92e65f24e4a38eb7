"""Run the stack in this process until a signal, or until the chat on top of it is left. Called by `up`."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from choir_local.settings import LocalSettings
from choir_local.stack import Stack
from choir_local.stack_state import StackState

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

WhenReady = Callable[[StackState], Awaitable[bool]]
"""Called once; True when everything shall stop afterwards."""


async def run_here(
    settings: LocalSettings, on_change: Callable[[StackState], None], when_ready: WhenReady
) -> bool:
    """Start the stack and keep it until told to stop; False if that came before it was ready.

    A second signal kills what still runs. Raises StartupError (in a group) if it does not start.
    """
    stack = Stack(settings, on_change)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stack.stop)
    try:
        async with asyncio.TaskGroup() as tasks:
            on_top = tasks.create_task(_on_top(stack, when_ready))
            running = tasks.create_task(stack.run())
            running.add_done_callback(lambda _: on_top.cancel())
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return stack.ready.is_set()


async def _on_top(stack: Stack, when_ready: WhenReady) -> None:
    await stack.ready.wait()
    if await when_ready(stack.state):
        stack.stop()
