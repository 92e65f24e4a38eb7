"""Run the stack in this process until a signal arrives or the user leaves the chat. Called by `up`."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from choir_local.settings import LocalSettings
from choir_local.stack import Stack
from choir_local.stack_state import StackObserver, StackState

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OnReady = Callable[[StackState], Awaitable[bool]]
"""Called once, when the stack is ready; returns True if the stack is to stop afterwards."""


async def run_in_foreground(
    settings: LocalSettings, observer: StackObserver, on_ready: OnReady
) -> bool:
    """Run the stack until it is stopped; return False if that happened before it was ready.

    A second signal kills the processes that still run. Raises StartupError (in a group) if the stack does
    not start.
    """
    stack = Stack(settings, observer)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stack.stop)
    try:
        async with asyncio.TaskGroup() as tasks:
            on_top = tasks.create_task(_on_top(stack, on_ready))
            running = tasks.create_task(stack.run())
            # when the stack has ended, the chat or the wait for readiness must end, too
            running.add_done_callback(lambda _: on_top.cancel())
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return stack.ready.is_set()


async def _on_top(stack: Stack, when_ready: OnReady) -> None:
    await stack.ready.wait()
    if await when_ready(stack.state):
        stack.stop()
